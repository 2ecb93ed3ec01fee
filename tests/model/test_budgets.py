import pytest

from gpu.model import budgets, orders, refusals
from gpu.model.budgets import Bound, Gate, GateState
from gpu.model.orders import Order, Refused
from gpu.model.pools import Use
from gpu.model.refusals import OverBudget
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_namespace,
    a_pod,
    a_release,
    a_settings,
    a_snapshot,
    budget,
)

KEY = "gpu.cozystack.io/h100"
TOTAL = "gpu.cozystack.io/total"


def a_book(*releases, claims=(), pods=()):
    return a_snapshot(releases=releases, claims=claims, pods=pods).counted()


@pytest.mark.parametrize(
    ("releases", "claims", "left"),
    [
        pytest.param([], [], None, id="nobody declares: unlimited"),
        pytest.param([a_release("tenant-a-b", budget(h100=4))], [], 4, id="unused"),
        pytest.param([a_release("tenant-a-b", budget(h100=0))], [], 0, id="0 is none"),
        pytest.param(
            [a_release("tenant-a-b", budget(h100=4))],
            [a_claim(tenant="tenant-a-b", count=3)],
            1,
            id="used in part",
        ),
        pytest.param(
            [a_release("tenant-a-b", budget(h100=4))],
            [a_claim(tenant="tenant-a-b", count=9)],
            0,
            id="lowered below use",
        ),
        pytest.param(
            [a_release("tenant-a", budget(h100=4))],
            [a_claim(tenant="tenant-a-c", count=3)],
            1,
            id="an undeclared sibling uses the pool",
        ),
        pytest.param(
            [a_release("tenant-a", budget(h100=4)), a_release("tenant-a-c", budget(h100=3))],
            [],
            1,
            id="a sibling's promise is kept free",
        ),
        pytest.param(
            [a_release("tenant-a", budget(h100=4)), a_release("tenant-a-b", budget(h100=3))],
            [a_claim(tenant="tenant-a", count=1)],
            3,
            id="its own promise is kept free for it",
        ),
        pytest.param(
            [a_release("tenant-a", budget(h100=4)), a_release("tenant-a-b", budget(h100=9))],
            [],
            0,
            id="promised more than the parent has: nothing is added",
        ),
        pytest.param(
            [a_release("tenant-root", budget(h100=2)), a_release("tenant-a-b", budget(h100=9))],
            [],
            0,
            id="an undeclared parent hides no grandparent",
        ),
        pytest.param(
            [a_release("tenant-root", budget(h100=5)), a_release("tenant-a", budget(h100=4))],
            [a_claim(tenant="tenant-b", count=1)],
            4,
            id="the nearest of equals bounds",
        ),
        pytest.param([a_release("tenant-a-b", budget(l40=1))], [], None, id="another class's key"),
    ],
)
def test_what_is_left_of_a_key_for_a_grandchild(releases, claims, left):
    book = a_book(*releases, claims=claims)
    assert budgets.left(book, "tenant-a-b", [KEY]) == left


def test_claims_of_every_phase_and_raw_pods_use_a_budget():
    claims = [
        a_claim("pending"),
        a_claim("bound", on="n1"),
        a_claim("lost", lost="n1"),
        a_claim("going", on="n1", deleting=True),
        a_claim("template", template=True),
    ]
    book = a_book(a_release(quotas=budget(total=9)), claims=claims, pods=[a_pod(units=2)])
    assert list(budgets.bounds(book, "tenant-a", TOTAL)) == [
        Bound(key=TOTAL, tenant="tenant-a", hard=9, used=7, left=2)
    ]


def test_a_running_pod_of_a_lost_claim_is_not_charged_again():
    lost = a_claim(lost="n1", count=2, vm="vm", pod_uids=["p"])
    book = a_book(claims=[lost], pods=[a_pod(uid="p", on="n1", units=3)])
    assert book.used("tenant-a", TOTAL) == 3


def test_every_budget_an_order_breaks_is_named_with_its_numbers():
    book = a_book(
        a_release("tenant-root", budget(total=8)),
        a_release("tenant-a", {KEY: 3, H100: 2}),
        claims=[a_claim(tenant="tenant-b", count=4)],
    )
    assert budgets.over(book, "tenant-a", (KEY, TOTAL, H100), 5) == (
        OverBudget(KEY, wanted=5, hard=3, used=0, tenant="tenant-a", own=True, left=3),
        OverBudget(TOTAL, wanted=5, hard=8, used=4, tenant="tenant-root", own=False, left=4),
        OverBudget(H100, wanted=5, hard=2, used=0, tenant="tenant-a", own=True, left=2),
    )
    assert budgets.over(book, "tenant-a", (KEY, TOTAL, H100), 2) == ()


def gate(key=KEY, tenant="tenant-a", **objects):
    return {
        item.key: (item.state, item.reason) for item in budgets.gates(a_snapshot(**objects), tenant)
    }[key]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param({}, (GateState.OPEN, "Unlimited"), id="absent"),
        pytest.param(
            {"releases": [a_release(quotas=budget(h100=2))]},
            (GateState.OPEN, "Remaining"),
            id="something remains",
        ),
        pytest.param(
            {"releases": [a_release(quotas=budget(h100=2))], "claims": [a_claim(count=2)]},
            (GateState.EXHAUSTED, "UsedUp"),
            id="nothing remains",
        ),
        pytest.param(
            {"releases": [a_release(quotas=budget(h100=1))], "claims": [a_claim(count=2)]},
            (GateState.CLOSED, "Overdrawn"),
            id="used over the budget",
        ),
        pytest.param(
            {"releases": [a_release(quotas=budget(h100=0))]},
            (GateState.CLOSED, "NoBudget"),
            id="a budget of 0",
        ),
        pytest.param(
            {"releases": [a_release("tenant-root", budget(h100=0))]},
            (GateState.CLOSED, "NoBudget"),
            id="the root's budget of 0",
        ),
        pytest.param(
            {
                "releases": [a_release("tenant-root", budget(h100=1)), a_release(quotas={KEY: 2})],
                "claims": [a_claim(count=2)],
            },
            (GateState.CLOSED, "Overdrawn"),
            id="used up, and overdrawn above: giving back would open nothing",
        ),
        pytest.param(
            {"releases": [a_release(quotas={KEY: "some"})]},
            (GateState.CLOSED, "Unreadable"),
            id="no number",
        ),
        pytest.param(
            {"releases": [a_release("tenant-root", {KEY: "some"})]},
            (GateState.CLOSED, "Unreadable"),
            id="no number above",
        ),
        pytest.param(
            {"releases": [a_release("tenant-root", {KEY: "some"})], "claims": [a_claim()]},
            (GateState.CLOSED, "Unreadable"),
            id="no number above, and overdrawn for that",
        ),
        pytest.param(
            {"releases": [a_release(quotas={KEY: 1.5})], "classes": [a_class(retired=True)]},
            (GateState.CLOSED, "Unreadable"),
            id="no number for a class that is retired",
        ),
        pytest.param(
            {"classes": [a_class(retired=True)]}, (GateState.CLOSED, "ClassRetired"), id="retired"
        ),
        pytest.param(
            {"classes": [a_class(deleting=True)]}, (GateState.CLOSED, "ClassDeleting"), id="going"
        ),
        pytest.param(
            {"classes": [a_class(mode="vgpu")]}, (GateState.CLOSED, "NotEntitled"), id="entitlement"
        ),
        pytest.param(
            {
                "classes": [a_class(mode="vgpu")],
                "namespaces": [a_namespace("tenant-root", entitled=True)],
            },
            (GateState.OPEN, "Unlimited"),
            id="entitled from above",
        ),
        pytest.param(
            {"classes": [], "releases": [a_release(quotas=budget(h100=2))]},
            (GateState.CLOSED, "NoSuchClass"),
            id="declared for a class that is gone",
        ),
    ],
)
def test_a_gate_is_open_exhausted_or_closed_and_says_why(objects, expected):
    assert gate(**objects) == expected


def test_a_raw_name_is_closed_while_naming_it_is_denied():
    assert gate(L40, settings=a_settings(L40)) == (GateState.CLOSED, "RawNameDenied")
    assert gate(L40, settings=a_settings(L40, raw=True)) == (GateState.OPEN, "Unlimited")


def test_gates_have_every_key_of_ours_and_none_of_the_hosts():
    snapshot = a_snapshot(
        classes=[a_class("b"), a_class("a")],
        settings=a_settings(H100),
        releases=[a_release("tenant-root", {"example.com/nic": 1, "gpu.cozystack.io/old": 2})],
    )
    keys = [item.key for item in budgets.gates(snapshot, "tenant-a")]
    assert keys == [
        "gpu.cozystack.io/a",
        "gpu.cozystack.io/b",
        "gpu.cozystack.io/old",
        TOTAL,
        H100,
    ]


def test_a_namespace_that_is_no_tenant_has_no_gates():
    assert budgets.gates(a_snapshot(), "default") == ()


def test_a_gate_shows_the_tenants_own_numbers_and_who_bounds_it():
    snapshot = a_snapshot(
        releases=[
            a_release("tenant-root", budget(total=10)),
            a_release("tenant-a", budget(total=6)),
        ],
        claims=[a_claim(count=2), a_claim("b", tenant="tenant-b", count=7)],
    )
    found = {item.key: item for item in budgets.gates(snapshot, "tenant-a")}
    assert found[TOTAL] == Gate(
        key=TOTAL,
        hard=6,
        use=Use(claims=2, pods=0, below=0),
        remaining=0,
        bounded_by="tenant-root",
        state=GateState.CLOSED,
        reason="Overdrawn",
        message=(
            "the budget of tenant-root for gpu.cozystack.io/total is overdrawn: ask its owner for "
            "more, or to give back"
        ),
    )
    assert found[KEY] == Gate(
        key=KEY,
        hard=None,
        use=Use(claims=2, pods=0, below=0),
        remaining=None,
        bounded_by=None,
        state=GateState.OPEN,
        reason="Unlimited",
        message=(
            "no budget limits gpu.cozystack.io/h100; an order counts under gpu.cozystack.io/total too, "
            "which leaves nothing"
        ),
    )


@pytest.mark.parametrize("declared", [{}, budget(h100=4)], ids=["no budget", "a budget of 4"])
@pytest.mark.parametrize(
    ("key", "objects", "reason"),
    [
        (KEY, {"classes": [a_class(retired=True)]}, "ClassRetired"),
        (KEY, {"classes": [a_class(mode="vgpu")]}, "NotEntitled"),
        (H100, {"settings": a_settings(H100)}, "RawNameDenied"),
    ],
    ids=["retired", "not entitled", "a raw name, denied"],
)
def test_nothing_remains_where_nothing_may_be_ordered(key, objects, reason, declared):
    snapshot = a_snapshot(releases=[a_release("tenant-a", declared)], **objects)
    found = {item.key: item for item in budgets.gates(snapshot, "tenant-a")}[key]
    assert (found.state, found.reason, found.remaining) == (GateState.CLOSED, reason, 0)


def test_a_gate_under_another_tenants_budget_tells_only_what_is_left():
    snapshot = a_snapshot(
        releases=[a_release("tenant-root", budget(total=77))],
        claims=[a_claim(count=2), a_claim("b", tenant="tenant-b", count=33)],
    )
    found = {item.key: item for item in budgets.gates(snapshot, "tenant-a")}[TOTAL]
    assert (found.hard, found.used, found.remaining) == (None, 2, 42)
    assert found.message == (
        "the budget of tenant-root for gpu.cozystack.io/total leaves 42 units to this tenant"
    )


SAID = {
    "its own": (
        "tenant-a",
        "for gpu.cozystack.io/h100 cannot be read ('4 GPUs' is not a quantity)",
    ),
    "one above": ("tenant-root", "for gpu.cozystack.io/h100 cannot be read and counts as 0: ask"),
}


@pytest.mark.parametrize(("declaring", "words"), SAID.values(), ids=SAID)
def test_an_order_under_a_budget_that_cannot_be_read_is_refused_in_its_words(declaring, words):
    snapshot = a_snapshot(releases=[a_release(declaring, {KEY: "4 GPUs"})])
    verdict = orders.check(snapshot, Order(tenant="tenant-a", class_name="h100", count=1))
    assert isinstance(verdict, Refused)
    (told,) = map(refusals.words, verdict.refusals)
    assert told.startswith(f"1 unit asked, the budget of {declaring} {words}")
    assert ("4 GPUs" in told) is (declaring == "tenant-a")


@pytest.mark.parametrize(
    ("quotas", "message"),
    [
        pytest.param(
            budget(h100=5, total=2),
            f"the budget of tenant-a for {KEY} leaves 5 units; an order counts under {TOTAL} too, "
            "which leaves 2 units",
            id="total leaves less",
        ),
        pytest.param(
            {H100: 0},
            f"no budget limits {KEY}; an order counts under {H100} too, which leaves nothing",
            id="the resource leaves nothing",
        ),
        pytest.param(
            budget(h100=2, total=2),
            f"the budget of tenant-a for {KEY} leaves 2 units",
            id="its own leaves no more",
        ),
        pytest.param(
            budget(h100=0, total=0),
            f"the budget of tenant-a for {KEY} is 0: ask for a larger one",
            id="its own is closed",
        ),
    ],
)
def test_a_gate_of_a_class_says_which_other_key_lets_fewer_through(quotas, message):
    snapshot = a_snapshot(releases=[a_release(quotas=quotas)], settings=a_settings(H100))
    gates = budgets.gates(snapshot, "tenant-a")
    assert {one.key: one.message for one in gates}[KEY] == message


def test_no_number_of_a_tenant_above_or_beside_is_told_to_one_below():
    snapshot = a_snapshot(
        releases=[a_release("tenant-root", budget(h100=7717)), a_release("tenant-b", {KEY: 3323})],
        claims=[a_claim("b", tenant="tenant-b", count=1213), a_claim("r", tenant="tenant-root")],
        pods=[a_pod(tenant="tenant-b", on="n1", units=1319)],
    )
    told = str(budgets.gates(snapshot, "tenant-a-c"))
    assert [number for number in ("7717", "3323", "1213", "1319") if number in told] == []
    assert f"leaves {7717 - 3323 - 1} units to this tenant" in told
