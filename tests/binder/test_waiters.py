"""2,000 orders that wait: an unchanged cluster costs no write, one bind that claim's alone."""

from dataclasses import replace

from gpu.binder import phases, results
from gpu.binder.changes import ClaimStatus
from tests.binder import raws
from tests.binder.scenes import scene_of

WAITERS = 2_000
FINALIZER = {"finalizers": ["gpu.cozystack.io/claim"]}


def one_pass(world):
    """The claims whose status a pass writes, and the world after it."""
    scene = scene_of(world)
    changes = [change for phase in phases.PASS for change in list(phase.changes(scene))]
    written = {
        change.claim.key: results.after(change)
        for change in changes
        if isinstance(change, ClaimStatus)
    }
    stored = tuple(written.get(claim.key, claim) for claim in world.claims)
    return sorted(key.name for key in written), replace(world, claims=stored)


def test_one_bind_among_2000_waiters_writes_that_claim_alone():
    """They want two to five units each and no node has two of the three, whatever is free in all."""
    crowd = [
        raws.a_claim(f"w{n:04}", count=2 + n % 4, at=n, meta=FINALIZER) for n in range(WAITERS)
    ]
    late = [raws.a_claim(f"x{n}", at=3000 + n, meta=FINALIZER) for n in range(2)]
    world = raws.a_world(
        classes=[raws.a_class(meta=FINALIZER)],
        nodes=[raws.a_node(f"n{n}", units=1) for n in range(3)],
        namespaces=[raws.a_tenant(name) for name in ("tenant-root", "tenant-a")],
        claims=[*crowd, *late],
    )
    everyone = world.claims
    written, world = one_pass(replace(world, claims=everyone[:WAITERS]))
    assert len(written) == WAITERS
    assert one_pass(world)[0] == []
    for n in range(2):
        added = replace(world, claims=(*world.claims, everyone[WAITERS + n]))
        written, world = one_pass(added)
        assert written == [f"x{n}"]
    assert sum(claim.node is not None for claim in world.claims) == 2
