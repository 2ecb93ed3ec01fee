"""Selectors: what each operator selects, and the words for what cannot be read."""

import pytest

from apiserver.wire import selectors
from apiserver.wire.status import BadRequest

LABELS = {
    "gold": {"tier": "gold", "units": "4"},
    "lead": {"tier": "lead", "units": "11", "old": ""},
    "bare": {},
}


def chosen(labels: str = "", fields: str = "") -> list[str]:
    selector = selectors.parse(labels, fields)
    return [name for name, own in LABELS.items() if selector.matches("tenant-a", name, own)]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("", ["gold", "lead", "bare"], id="empty"),
        pytest.param("tier=gold", ["gold"], id="equal"),
        pytest.param("tier==gold", ["gold"], id="double-equal"),
        pytest.param("tier!=gold", ["lead", "bare"], id="unequal-takes-absent"),
        pytest.param("tier in (gold, lead)", ["gold", "lead"], id="in"),
        pytest.param("tier notin (gold)", ["lead", "bare"], id="notin-takes-absent"),
        pytest.param("tier", ["gold", "lead"], id="exists"),
        pytest.param("!tier", ["bare"], id="absent"),
        pytest.param("old=", ["lead"], id="empty-value"),
        pytest.param("old in (,x)", ["lead"], id="empty-value-in-set"),
        pytest.param("units>4", ["lead"], id="greater-is-by-number"),
        pytest.param("units<11", ["gold"], id="less-is-by-number"),
        pytest.param("old in ()", ["lead"], id="a-set-of-nothing-is-the-empty-value"),
        pytest.param("old notin ()", ["gold", "bare"], id="not-the-empty-value"),
        pytest.param("tier>1", [], id="no-number-is-not-greater"),
        pytest.param(" tier = gold , units ", ["gold"], id="spaces"),
        pytest.param("!tier,tier=gold", [], id="contradiction"),
        pytest.param("in in (in)", [], id="in-as-key-and-value"),
        pytest.param("notin", [], id="operator-word-as-key"),
        pytest.param("example.com/a=b", [], id="prefixed-key"),
    ],
)
def test_a_label_selector_judges_the_labels_shown(selector, expected):
    assert chosen(selector) == expected


@pytest.mark.parametrize(
    "selector",
    [
        "a in (", "=b", "a=b=c", "a in b", "-x=1", "a>b", ",", "a=b c", "a=-b-", "a,",
        "!a=b", "a in (b c)", "a>", "x/y/z=1", "UP.er/x=1", "a!", "(a)", "!", "a=b,,c",
    ],
)  # fmt: skip
def test_a_label_selector_that_does_not_parse_is_refused(selector):
    with pytest.raises(BadRequest):
        selectors.parse_labels(selector)


def test_a_long_set_is_read_whole():
    values = ",".join(f"v{number}" for number in range(900))
    (requirement,) = selectors.parse_labels(f"tier notin ({values})")
    assert len(requirement.values) == 900


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("metadata.name=gold", ["gold"], id="name"),
        pytest.param("metadata.name==gold", ["gold"], id="name-double"),
        pytest.param("metadata.name!=gold", ["lead", "bare"], id="not-name"),
        pytest.param("metadata.namespace=tenant-a", ["gold", "lead", "bare"], id="namespace"),
        pytest.param("metadata.namespace=other", [], id="other-namespace"),
        pytest.param("metadata.name=gold,metadata.namespace=tenant-a", ["gold"], id="both"),
        pytest.param("metadata.name=a\\,b", [], id="escaped-comma"),
        pytest.param("", ["gold", "lead", "bare"], id="empty"),
    ],
)
def test_a_field_selector_knows_name_and_namespace(selector, expected):
    assert chosen(fields=selector) == expected


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        pytest.param("spec.nope=1", "spec.nope", id="unknown-field"),
        pytest.param("metadata.name", "metadata.name", id="no-operator"),
        pytest.param("metadata.uid=x", "metadata.uid", id="known-elsewhere"),
        pytest.param("metadata.name=a=b", "metadata.name", id="bare-equal-sign"),
        pytest.param("metadata.name=a\\b", "metadata.name", id="bad-escape"),
    ],
)
def test_a_bad_field_selector_is_refused_by_name(selector, named):
    with pytest.raises(BadRequest, match=named.replace(".", r"\.")):
        selectors.parse_fields(selector)


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        pytest.param("metadata.name=gold", "gold", id="one"),
        pytest.param("metadata.name=gold,metadata.name=gold", "gold", id="same-twice"),
        pytest.param("metadata.name=gold,metadata.name=lead", "", id="two"),
        pytest.param("metadata.name!=gold", "", id="negated"),
        pytest.param("metadata.namespace=x", "", id="namespace"),
    ],
)
def test_the_one_name_asked_for_is_what_rbac_judges(selector, name):
    assert selectors.parse("", selector).name == name


def test_what_has_no_namespace_is_not_selected_by_one():
    assert selectors.parse("", "metadata.name=x", namespaced=False).name == "x"
    with pytest.raises(
        BadRequest, match=r'"metadata\.namespace" is not .*: only "metadata\.name"$'
    ):
        selectors.parse("", "metadata.name=x,metadata.namespace=y", namespaced=False)
