import pytest

from gpu.model import refusals
from gpu.model.refusals import (
    BadCount,
    ClassDeleting,
    ClassRetired,
    GuestMayRun,
    NoFreeUnits,
    NoNodeAccepts,
    NoNodeEligible,
    NoNodeForSet,
    NoNodeServes,
    NoSuchClass,
    NoTenant,
    NotEntitled,
    NotPermitted,
    OverBudget,
    OverMaxCount,
)
from tests.builders import H100

KEY = "gpu.cozystack.io/h100"
OWN = OverBudget(KEY, wanted=5, hard=4, used=3, tenant="tenant-a", own=True, left=1)
ABOVE = OverBudget(KEY, wanted=5, hard=61, used=59, tenant="tenant-root", own=False, left=2)

ROWS = [
    (
        NoTenant("default"),
        "NoTenant",
        "namespace default belongs to no tenant: order in a tenant's namespace",
    ),
    (
        NoSuchClass("h100"),
        "NoSuchClass",
        "class h100 does not exist: order one that gpuoffers lists",
    ),
    (
        ClassRetired("h100"),
        "ClassRetired",
        "class h100 is retired and takes no new orders: order another class",
    ),
    (
        ClassDeleting("h100"),
        "ClassDeleting",
        "class h100 is being deleted and takes no orders: order another class",
    ),
    (
        NotPermitted("h100", H100),
        "NotPermitted",
        (
            f"class h100 cannot be used by VMs yet: KubeVirt does not permit {H100}; ask the hoster to "
            "add it to permittedHostDevices"
        ),
    ),
    (BadCount(0, 9), "BadCount", "count is 0: order at least 1 and at most 9"),
    (
        OverMaxCount("h100", 5, 4),
        "OverMaxCount",
        "5 units asked, one claim of class h100 may have at most 4: order several claims",
    ),
    (
        NoNodeServes("h100", H100),
        "NoNodeServes",
        f"no node has {H100} of class h100: wait until the hoster adds one",
    ),
    (
        NoNodeEligible("h100"),
        "NoNodeEligible",
        "no node with class h100 takes new VMs at present: wait until one does",
    ),
    (
        NoFreeUnits("h100", 5, 3),
        "NoFreeUnits",
        (
            "5 units of class h100 asked, 3 free to order: order at most 3 or wait until units are "
            "given back"
        ),
    ),
    (
        NoFreeUnits("h100", 1, 0),
        "NoFreeUnits",
        "1 unit of class h100 asked, 0 free to order: wait until units are given back",
    ),
    (
        NoNodeAccepts("h100", 5, 8, 4),
        "NoNodeAccepts",
        (
            "5 units of class h100 asked on one node, no node has more than 4 of the 8 free: order at "
            "most 4 or wait until a node has room"
        ),
    ),
    (
        NoNodeForSet(2, (("h100", 3), ("l40", 1))),
        "NoNodeForSet",
        (
            "2 claims of one VM need 3 units of class h100 and 1 unit of class l40 on one node, no "
            "node has room for all: wait until one has, or give back a claim"
        ),
    ),
    (
        GuestMayRun(),
        "GuestMayRun",
        (
            "its VM may still run on the node where its units were, and is bound nowhere else "
            "before that has ended: stop the VM, or ask the hoster for that node"
        ),
    ),
    (
        OWN,
        "OverBudget",
        (
            f"5 units asked, budget {KEY} of tenant-a is 4 and 3 are used or promised, 1 left: delete "
            "a claim or ask for a larger budget"
        ),
    ),
    (
        ABOVE,
        "OverBudget",
        (
            f"5 units asked, the budget of tenant-root for {KEY} leaves 2 to this tenant: order less, "
            "or ask its owner for more"
        ),
    ),
    (
        NotEntitled("h100", "tenant-a"),
        "NotEntitled",
        (
            "class h100 is a vGPU class and tenant-a is not entitled to those: ask the hoster for the "
            "entitlement"
        ),
    ),
]


@pytest.mark.parametrize(
    ("refusal", "code", "words"), ROWS, ids=[f"{i}-{row[1]}" for i, row in enumerate(ROWS)]
)
def test_each_refusal_has_a_stable_code_and_says_what_to_do(refusal, code, words):
    assert (refusals.code(refusal), refusals.words(refusal)) == (code, words)


def test_every_member_of_the_union_has_a_row():
    assert {type(row[0]) for row in ROWS} == set(refusals.Refusal.__args__)


def test_codes_are_distinct_and_are_stored_reason_codes():
    codes = [member.reason for member in refusals.Refusal.__args__]
    assert len(set(codes)) == len(codes)
    assert all(code[0].isupper() and code.isalnum() and len(code) <= 64 for code in codes)


def test_words_about_another_tenants_budget_hold_none_of_its_counts():
    assert not {"61", "59"} & set(refusals.words(ABOVE).replace(":", " ").replace(",", " ").split())
