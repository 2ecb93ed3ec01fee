"""Units that one set frees are another's only once that is stored: each set is written for itself."""

from gpu.cluster import errors
from gpu.objects import kinds
from tests.binder import interrupting, raws
from tests.binder.interrupting import Case, held

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


def a_case():
    """VM's pair goes Lost whole for `b`; `y` leaves the same bad node, and fits only where `a` is."""
    return Case(
        [raws.a_node("n1", taints=[TAINT]), raws.a_node("n2", units=4)],
        [held("b"), held("a", "n2", count=4, at=1), held("y", count=4, at=2)],
        more={"vms": [raws.a_vm("vm", claims=["a", "b"])]},
    )


async def test_a_set_is_not_moved_onto_units_whose_loss_was_refused():
    rig = interrupting.a_rig(a_case())
    no = errors.from_status({"code": 403, "reason": "Forbidden", "message": "no"})
    rig.cluster.refuse(
        lambda write: (
            write.kind == kinds.GPU_CLAIMS
            and write.key.name in {"a", "b"}
            and (write.body.get("status") or {}).get("phase") == "Lost"
        ),
        no,
    )
    for _ in range(4):
        await rig.once()
        assert interrupting.in_use(rig)["n2", raws.RESOURCE] <= 4


async def test_what_was_freed_is_given_out_in_the_same_pass():
    rig = interrupting.a_rig(a_case())
    await rig.until_still()
    assert interrupting.in_use(rig)["n2", raws.RESOURCE] == 4
    assert interrupting.told(interrupting.picture(rig))
