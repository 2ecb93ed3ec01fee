"""A pass that gives units back asks for another one: its own events are an echo to the loop."""

from tests.binder import interrupting, raws
from tests.binder.interrupting import Case, used, vmi


async def test_units_of_a_pod_now_known_to_have_ended_are_offered_at_once():
    """The pod is gone, and the agent sees no device of it: what it may have held is free again."""
    status = raws.seen_devices(units=8, at="2026-01-02T03:04:05Z")
    case = Case(
        {"n1": 8},
        [used("x", count=8), raws.a_claim("next", count=8, meta=interrupting.OURS)],
        more={
            "vmis": [vmi("x", phase="Succeeded")],
            "inventory": [raws.an_inventory("n1", status=status)],
        },
    )
    rig = interrupting.a_rig(case)
    await rig.until_still()
    rig.clock.advance(30)
    interrupting.world_moves(rig)
    report = await rig.once()
    assert (report.written["Detach"], report.again) == (1, True)
