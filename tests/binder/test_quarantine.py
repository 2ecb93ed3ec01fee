"""One tenant whose every write is refused delays nobody else."""

import pytest

from gpu.cluster import errors
from gpu.objects import kinds
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import Write

CLAIM = {"finalizers": ["gpu.cozystack.io/claim"]}
NO = errors.from_status(
    {"code": 403, "reason": "Forbidden", "message": "denied by the tenant's own policy"}
)


UNCONFIGURED = errors.from_status(
    {
        "code": 422,
        "reason": "Invalid",
        "message": 'gpuclaims.gpu.cozystack.io "b1" is forbidden: ValidatingAdmissionPolicy '
        "'cozystack-gpu-term-policy' denied request: failed to configure policy: failed to find "
        "resource referenced by paramKind: 'gpu.cozystack.io/v1alpha1, Kind=GPUBinder'",
    }
)
"""As kube-apiserver 1.37 said for 30 s after its start."""


def of_tenant_b(write: Write) -> bool:
    return write.key.namespace == "tenant-b"


def placements_of_b(write: Write) -> bool:
    return of_tenant_b(write) and "nodeName" in write.body.get("status", {})


def a_rig(units: int = 8, **more: object) -> Rig:
    rig = Rig(**more)
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=units)],
        namespaces=[raws.a_tenant(name) for name in ("tenant-root", "tenant-a", "tenant-b")],
        claims=[
            raws.a_claim("b1", tenant="tenant-b", at=1),
            raws.a_claim("a1", at=2),
            raws.a_claim("b2", tenant="tenant-b", at=3),
            raws.a_claim("a2", at=4),
        ],
    )
    return rig


async def test_the_others_are_bound_in_the_very_same_pass():
    rig = a_rig()
    rig.cluster.refuse(of_tenant_b, NO)
    report = await rig.once()
    assert rig.placed() == {"tenant-a/a1": "n1", "tenant-a/a2": "n1"}
    assert (report.aborted, report.retryable, report.quarantined) == (False, (), 2)


async def test_units_of_a_refused_placement_are_free_again_for_others():
    rig = a_rig(units=2)
    rig.cluster.refuse(placements_of_b, NO)
    first = await rig.once()
    assert first.again
    await rig.until_still()
    assert rig.placed() == {"tenant-a/a1": "n1", "tenant-a/a2": "n1"}


@pytest.mark.parametrize(
    ("no", "expected"),
    [
        pytest.param(NO, [5, 15, 35], id="judged"),
        pytest.param(UNCONFIGURED, [5, 10, 15, 20, 25, 30, 35], id="policies not configured yet"),
    ],
)
async def test_a_refused_set_is_asked_again_only_after_its_own_delay(no, expected):
    """It grows, but for an API server that could not judge it."""
    rig = a_rig()
    rig.cluster.refuse(placements_of_b, no)
    await rig.until_still()
    asked = []
    for second in range(40):
        before = len(rig.writes(kinds.GPU_CLAIMS))
        await rig.once()
        if len(rig.writes(kinds.GPU_CLAIMS)) > before:
            asked.append(second)
        rig.clock.advance(1)
    assert asked == expected


async def test_a_delay_that_ends_while_a_pass_runs_is_due_at_once():
    """That pass began too early to ask, and the next is told of it: not 30 s later by the resync."""
    rig = a_rig()
    rig.cluster.refuse(placements_of_b, NO)
    await rig.until_still()
    ends = (await rig.once()).quarantine_ends
    assert ends == 5

    def slow(write: Write) -> bool:
        rig.clock.advance(0.2)
        return False

    rig.clock.advance(4.9)
    rig.cluster.refuse(slow, NO)
    rig.store(claims=[raws.a_claim("a3", at=6)])
    report = await rig.once()
    assert rig.placed()["tenant-a/a3"] == "n1"
    assert rig.clock.monotonic() > ends
    assert report.quarantine_ends == ends


async def test_the_claim_says_that_its_placement_is_refused_and_by_what_words():
    rig = a_rig()
    rig.cluster.refuse(placements_of_b, NO)
    await rig.until_still()
    stored = rig.claim("b1", "tenant-b")
    assert stored is not None
    assert stored["status"]["reasons"] == ["WriteRefused"]
    waiting = next(c for c in stored["status"]["conditions"] if c["type"] == "Waiting")
    assert "denied by the tenant's own policy" in waiting["message"]


async def test_once_it_is_no_longer_refused_the_set_is_bound_and_says_so():
    rig = a_rig()
    end = rig.cluster.refuse(placements_of_b, NO)
    await rig.until_still()
    end()
    rig.clock.advance(5)
    await rig.until_still()
    stored = rig.claim("b1", "tenant-b")
    assert stored is not None
    assert [c["type"] for c in stored["status"]["conditions"]] == ["Bound"]
    assert "reasons" not in stored["status"]
    assert (await rig.once()).quarantined == 0


async def test_orders_refused_at_different_times_are_served_oldest_first_afterwards():
    rig = a_rig(units=3)
    end = rig.cluster.refuse(placements_of_b, NO)
    await rig.until_still()
    rig.clock.advance(3)
    rig.store(claims=[raws.a_claim("b3", tenant="tenant-b", at=5)])
    await rig.until_still()
    rig.clock.advance(2)
    await rig.until_still()
    assert rig.quarantine.held(5) == {f"tenant-b/b{n}" for n in (1, 2, 3)}
    end()
    rig.clock.advance(5)
    await rig.until_still()
    assert rig.placed() == {"tenant-a/a1": "n1", "tenant-a/a2": "n1", "tenant-b/b1": "n1"}


async def test_a_refused_finalizer_keeps_its_claim_from_being_placed_and_nobody_else():
    rig = a_rig()
    rig.cluster.refuse(lambda write: of_tenant_b(write) and write.subresource is None, NO)
    await rig.until_still()
    assert rig.placed() == {"tenant-a/a1": "n1", "tenant-a/a2": "n1"}


async def test_a_refused_release_is_asked_again_and_delays_no_other_release():
    rig = Rig()
    rig.store(
        claims=[
            raws.a_claim("b1", tenant="tenant-b", meta=raws.DELETED),
            raws.a_claim("a1", meta=raws.DELETED),
        ]
    )
    end = rig.cluster.refuse(of_tenant_b, NO)
    await rig.once()
    assert rig.claim("a1") is None
    end()
    rig.clock.advance(5)
    await rig.once()
    assert rig.claim("b1", "tenant-b") is None
