"""However calls of starts, stops and the binder interleave: a VMI that lives has the claims it names."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.admission.attaching_site import Site
from tests.fakes.cluster import FakeCluster

NAMES = ("vm", "other")
CLAIMS = ("a", "b", "c")

actions = st.one_of(
    st.tuples(
        st.just("create"),
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3, unique=True).map(tuple),
    ),
    st.tuples(st.just("dry"), st.sampled_from(NAMES), st.just(("a", "b"))),
    st.tuples(st.just("going"), st.sampled_from(NAMES), st.just(())),
    st.tuples(st.just("gone"), st.sampled_from(NAMES), st.just(())),
    st.tuples(st.just("adopt"), st.sampled_from(NAMES), st.sampled_from([(it,) for it in CLAIMS])),
)


class Slow(FakeCluster):
    """Every call arrives after as many turns of the loop as drawn."""

    def __init__(self, turns: Sequence[int]) -> None:
        super().__init__()
        self._turns = list(turns)

    async def _arrive(self, kind: Kind) -> None:
        for _ in range(self._turns.pop() if self._turns else 0):
            await asyncio.sleep(0)
        await super()._arrive(kind)


async def _do(site: Site, action: tuple[str, str, tuple[str, ...]]) -> None:
    what, name, names = action
    try:
        if what == "create":
            await site.create(name, *names)
        elif what == "dry":
            await site.start(name, *names, dry_run=True)
        elif what == "going":
            await _stop(site, name)
        elif what == "gone":
            await _end(site, name)
        else:
            await _adopt(site, name, names[0])
    except (errors.AlreadyExists, errors.NotFound, errors.Conflict):
        return


async def _stop(site: Site, name: str) -> None:
    found = await site.api.get(kinds.VMIS, name, "tenant-a")
    patch = {"metadata": {"finalizers": ["keeps"], "uid": found["metadata"]["uid"]}}
    await site.api.patch(kinds.VMIS, name, patch, "tenant-a")
    await site.api.delete(kinds.VMIS, name, "tenant-a", uid=found["metadata"]["uid"])


async def _end(site: Site, name: str) -> None:
    found = await site.api.get(kinds.VMIS, name, "tenant-a")
    if "deletionTimestamp" in found["metadata"]:
        meta = {"finalizers": None, "resourceVersion": found["metadata"]["resourceVersion"]}
        await site.api.patch(kinds.VMIS, name, {"metadata": meta}, "tenant-a")


async def _adopt(site: Site, name: str, claim: str) -> None:
    """What phase `attachments` writes when a VMI carries the id."""
    stored = await site.api.get(kinds.GPU_CLAIMS, claim, "tenant-a")
    vmi = await site.api.get(kinds.VMIS, name, "tenant-a")
    attached = stored["status"].get("attachedTo") or {}
    if attached.get("name") == name and _carried(vmi).get(claim) == attached.get("admission"):
        patch = {
            "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
            "status": {"attachedTo": {"uid": vmi["metadata"]["uid"]}},
        }
        await site.api.patch(kinds.GPU_CLAIMS, claim, patch, "tenant-a", subresource="status")


def _carried(vmi: dict[str, Any]) -> dict[str, str]:
    from tests.admission import starts  # noqa: PLC0415 -- beside its one use

    return {it["claim"]: it["admission"] for it in starts.record(vmi) or []}


@given(
    st.lists(st.lists(actions, min_size=1, max_size=4), min_size=1, max_size=5),
    st.lists(st.integers(0, 6), max_size=60),
    st.sets(st.integers(0, 4)),
)
def test_whatever_interleaves_a_vmi_that_lives_has_its_claims(rounds, turns, lagging):
    """Actions of one round run at once; time stands still, so nobody is waited for in vain.

    In rounds that are `lagging` the cache has claims and VMIs as they were at the start of it.
    """

    async def run() -> None:
        site = Site(api=Slow(turns))
        for name in CLAIMS:
            site.claim(name)
        for number, actions in enumerate(rounds):
            if number in lagging:
                seen = site.raw(kinds.GPU_CLAIMS)
                site.stale = {it["metadata"]["name"]: it for it in seen}
                site.stale_vmis = site.raw(kinds.VMIS)
            await asyncio.gather(*(_do(site, action) for action in actions))
            site.stale, site.stale_vmis = {}, None
            attached = {name: site.attached(name) or {} for name in CLAIMS}
            for vmi in site.raw(kinds.VMIS):
                if "deletionTimestamp" in vmi["metadata"]:
                    continue
                for claim, admission in _carried(vmi).items():
                    found = attached[claim]
                    name = vmi["metadata"]["name"]
                    assert (found.get("name"), found.get("admission")) == (name, admission)

    asyncio.run(run())
