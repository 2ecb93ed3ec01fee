"""A budget that cannot be read is told once on the object that declares it, and once when mended."""

import pytest

from gpu.binder.budget_news import BudgetNews
from gpu.model import advance
from tests.binder import raws
from tests.binder.rig import Rig
from tests.builders import H100, a_claim, a_quota, a_release, a_snapshot, budget
from tests.fakes.recorder import HeardRecorder

KEY = "gpu.cozystack.io/h100"
WORDS = "GPU quotas of tenant-a cannot be read and count as 0, write whole numbers: "


def heard(news, **objects):
    """`Kind key Reason: note` of each Event; `!` marks a warning."""
    recorder = HeardRecorder()
    for item in news.of(a_snapshot(**objects)):
        item.send(recorder)
    return [f"{head}: {note}" for head, note in zip(recorder.heard, recorder.notes, strict=True)]


@pytest.mark.parametrize(
    ("objects", "lines"),
    [
        pytest.param({"releases": [a_release("tenant-a", budget(h100=4))]}, [], id="readable"),
        pytest.param(
            {"releases": [a_release("tenant-a", {KEY: "x"})]},
            [
                (
                    f"HelmRelease tenant-root/tenant-a QuotaUnreadable!: {WORDS}"
                    f"{KEY}: 'x' is not a quantity"
                )
            ],
            id="on the HelmRelease",
        ),
        pytest.param(
            {"quotas": [a_quota("tenant-a", of={f"requests.{H100}": "1500m"})]},
            [
                (
                    f"ResourceQuota tenant-a/tenant-quota QuotaUnreadable!: {WORDS}"
                    f"{H100}: '1500m' is a fraction: units are whole"
                )
            ],
            id="on the ResourceQuota where there is no HelmRelease",
        ),
        pytest.param(
            {"releases": [a_release("tenant-a", {H100: -1, KEY: True})]},
            [
                (
                    f"HelmRelease tenant-root/tenant-a QuotaUnreadable!: {WORDS}"
                    f"{KEY}: True is not a quantity; {H100}: -1 units: an amount cannot be negative"
                )
            ],
            id="every key in one",
        ),
        pytest.param(
            {"releases": [a_release("tenant-a", {"example.com/nic": "x"})]},
            [],
            id="the host's own keys are the host's",
        ),
        pytest.param(
            {"releases": [a_release("tenant-a", {KEY: "x"}), a_release("tenant-b", {KEY: "y"})]},
            [
                (
                    f"HelmRelease tenant-root/tenant-a QuotaUnreadable!: {WORDS}"
                    f"{KEY}: 'x' is not a quantity"
                ),
                (
                    "HelmRelease tenant-root/tenant-b QuotaUnreadable!: "
                    f"{WORDS.replace('tenant-a', 'tenant-b')}{KEY}: 'y' is not a quantity"
                ),
            ],
            id="each tenant for itself",
        ),
    ],
)
def test_what_cannot_be_read_is_told_where_it_is_declared(objects, lines):
    assert heard(BudgetNews(), **objects) == lines


def test_a_change_is_told_once_and_so_is_its_end():
    news = BudgetNews()
    bad = {"releases": [a_release("tenant-a", {KEY: "x"})]}
    assert len(heard(news, **bad)) == 1
    assert heard(news, **bad) == []
    assert heard(news, **bad, claims=[a_claim()]) == []
    assert heard(news, releases=[a_release("tenant-a", {KEY: 4})]) == [
        (
            "HelmRelease tenant-root/tenant-a QuotaReadable: "
            "all GPU quotas of tenant-a can be read again"
        )
    ]
    assert heard(news) == []
    assert len(heard(news, **bad)) == 1
    assert heard(news) == [], "the tenant is gone"


def test_nothing_is_looked_at_while_declarations_stand(monkeypatch):
    news = BudgetNews()
    snapshot = a_snapshot(releases=[a_release("tenant-a", {KEY: "x"})])
    assert len(news.of(snapshot)) == 1
    monkeypatch.setattr("gpu.model.tenancy.declaring", lambda *_: pytest.fail("looked again"))
    assert news.of(advance.advance(snapshot, snapshot.given, snapshot.settings)) == ()


async def test_a_pass_tells_of_it_and_places_for_other_tenants():
    rig = Rig()
    rig.passes.recorder = HeardRecorder()
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node()],
        namespaces=[raws.a_tenant(), raws.a_tenant("tenant-b")],
        releases=[raws.a_release("tenant-a", h100="x"), raws.a_release("tenant-b", h100=1)],
        claims=[raws.a_claim("x"), raws.a_claim("y", tenant="tenant-b")],
    )
    await rig.until_still()
    heard = [line for line in rig.passes.recorder.heard if "Quota" in line]
    assert heard == ["HelmRelease tenant-root/tenant-a QuotaUnreadable!"]
    assert rig.placed() == {"tenant-b/y": "n1"}
    waiting = {item["type"]: item for item in rig.claim("x")["status"]["conditions"]}["Waiting"]
    assert (waiting["reason"], waiting["message"]) == (
        "OverBudget",
        (
            f"1 unit asked, the budget of tenant-a for {KEY} cannot be read ('x' is not a quantity) and "
            "counts as 0: write a whole number in resourceQuotas"
        ),
    )
