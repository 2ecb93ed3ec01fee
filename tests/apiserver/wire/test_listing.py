"""Pages: limit, continue, and the forms of a list."""

import base64
import json

import pytest

from apiserver.wire import listing, selectors, states
from apiserver.wire.items import Key
from apiserver.wire.listing import Page
from apiserver.wire.negotiate import Form, View
from apiserver.wire.selectors import Selector
from apiserver.wire.status import BadRequest
from tests.apiserver.wire.rows import COLUMNS, KIND, rows

ITEMS = states.first(rows("a", "b", "c"), 10).items
MARK = listing.query_mark("words/ns", Selector())


def names(page: Page) -> list[str]:
    return [item.row.name for item in page.items]


def test_pages_give_every_object_once_and_end_without_a_token():
    seen, after = [], None
    while True:
        page = listing.page(ITEMS, 10, Selector(), 1, mark=MARK, after=after)
        seen.append((names(page), page.remaining))
        if not page.token:
            break
        after = Key(*listing.read_token(page.token, MARK).after)
    assert seen == [(["a"], 2), (["b"], 1), (["c"], None)]


def test_a_page_with_a_selector_does_not_count_what_remains():
    page = listing.page(ITEMS, 10, selectors.parse("!x", ""), 1, mark=MARK)
    assert (bool(page.token), page.remaining) == (True, None)


def test_a_token_carries_version_and_place():
    token = listing.page(ITEMS, 10, Selector(), 1, mark=MARK).token
    read = listing.read_token(token, MARK)
    assert (read.rv, read.after) == (10, ("ns", "a"))


TOKEN = listing.page(ITEMS, 10, Selector(), 1, mark=MARK).token


@pytest.mark.parametrize(
    "broken",
    [
        "zzz", "!!", "", TOKEN[: len(TOKEN) // 2], TOKEN + "AAAA", TOKEN[::-1],
        base64.urlsafe_b64encode(b'{"v":2,"rv":1,"after":["",""],"query":"x"}').decode(),
        base64.urlsafe_b64encode(b'{"v":1,"rv":-5,"after":["",""],"query":"x"}').decode(),
    ],
)  # fmt: skip
def test_a_tampered_token_is_a_bad_request(broken):
    with pytest.raises(BadRequest, match="continue key is not valid"):
        listing.read_token(broken, MARK)


def test_a_token_is_bound_to_its_query():
    other = listing.query_mark("words/other", Selector())
    with pytest.raises(BadRequest, match="another query"):
        listing.read_token(TOKEN, other)


def test_a_list_has_its_kind_and_its_version():
    page = listing.page(ITEMS, 12, Selector(), 0)
    made = listing.render(KIND, COLUMNS, page, View(), "Metadata")
    assert (made["kind"], made["apiVersion"], made["metadata"]) == (
        "WordList",
        "g.io/v1",
        {"resourceVersion": "12"},
    )
    assert [item["metadata"]["name"] for item in made["items"]] == ["a", "b", "c"]


def test_nothing_selected_is_an_empty_array():
    page = listing.page((), 12, Selector(), 0)
    assert listing.render(KIND, COLUMNS, page, View(), "Metadata")["items"] == []


@pytest.mark.parametrize(
    ("include", "kind"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Word")],
)
def test_a_table_row_carries_what_include_object_says(include, kind):
    page = listing.page(ITEMS, 12, Selector(), 1, mark=MARK)
    made = listing.render(KIND, COLUMNS, page, View(form=Form.TABLE), include)
    shown = made["rows"][0]["object"]
    assert (shown and shown["kind"]) == kind
    assert made["metadata"] == {
        "resourceVersion": "12",
        "continue": page.token,
        "remainingItemCount": 2,
    }


def test_a_partial_list_has_metadata_only():
    view = View(form=Form.PARTIAL_LIST, version="v1beta1")
    page = listing.page(ITEMS, 12, Selector(), 0)
    made = json.loads(json.dumps(listing.render(KIND, COLUMNS, page, view, "Metadata")))
    assert (made["kind"], made["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1beta1",
    )
    assert {tuple(sorted(item)) for item in made["items"]} == {("apiVersion", "kind", "metadata")}
