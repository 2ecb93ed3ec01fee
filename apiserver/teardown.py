"""`cozystack-gpu teardown`: what the product leaves behind must hinder nobody (domain contract 11).

Out go the aggregated API, the webhooks, the policies and our finalizers; holds, settings, CRDs and
the keeper policy stay for a later install. It runs while the product still does (the chart's hook
comes before anything is deleted), so it first marks GPUBinder: the leader then puts nothing back.
Nothing here waits for that leader, which may be dead: the sweep is repeated until it finds nothing
left to do. A second run does no harm; a step that is refused does not stop the others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver import takeover
from gpu import keys, ports
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.binders import GPUBinder
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from policies import bundle, shapes, stored
from policies.shapes import Document, Stay

API_SERVICE: Final = f"{keys.CATALOG_VERSION}.{keys.CATALOG_GROUP}"
WEBHOOKS: Final = keys.WEBHOOKS_NAME
"""Name of our webhook configurations, mutating and validating."""
FINALIZING: Final = "cozystack-gpu-claim-finalizer"
"""Name of the policy that puts our finalizer on new claims, and of its binding."""
NO_RELEASE: Final = "no-release"
"""The mark's value where the release's ClusterRole is not there."""
QUIET: Final = 1.0
"""Seconds between two sweeps: the second sees what a pass under way had put back."""
PATIENCE: Final = 60.0
"""Seconds after which a silent cluster, or a leader that does not obey, is a failure."""

_FINALIZED: Final = (
    (kinds.GPU_CLAIMS, keys.CLAIM_FINALIZER),
    (kinds.GPU_CLASSES, keys.CLASS_FINALIZER),
)

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was done; `failures` in words, empty when nothing of ours can hinder anybody now."""

    removed: tuple[str, ...] = ()
    """`Kind name` of each object deleted."""
    released: tuple[str, ...] = ()
    """`Kind namespace/name` of each claim and class whose finalizer was taken off."""
    gated: tuple[ObjectKey, ...] = ()
    """Pods that still wait at our gate."""
    ungated: tuple[ObjectKey, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Say whether everything was done."""
        return not self.failures


async def teardown(
    writer: ports.Writer, config: Config, *, release_gates: bool = False, report: Report
) -> Result:
    """Take the product out of everybody's way; `report` gets a line for each thing done or left.

    Done within a few `QUIET` when nothing fights it, `PATIENCE` at most. Raises nothing that the
    API server answered: that is in `Result.failures`.
    """
    work = _Work(writer, config, release_gates=release_gates, report=report)
    try:
        async with asyncio.timeout(PATIENCE):
            await work.until_quiet()
    except TimeoutError:
        work.failures[f"not done after {PATIENCE:.0f} s"] = None
    result = Result(
        removed=tuple(work.removed),
        released=tuple(work.released),
        gated=tuple(work.gated),
        ungated=tuple(work.ungated),
        failures=tuple(work.failures),
    )
    _conclude(result, report)
    return result


async def still_torn_down(writer: ports.Writer, config: Config) -> bool:
    """Say whether this very release is being torn down; take off the mark of an earlier one.

    To be asked by a new leader before it writes anything. The mark bears the uid of the release's
    ClusterRole, which a new install makes anew; without a ClusterRole, whoever starts means it.
    """
    binder = await stored.find(writer, kinds.GPU_BINDERS, keys.BINDER_NAME)
    mark = ((binder or {}).get("metadata", {}).get("annotations") or {}).get(
        keys.TEARDOWN_ANNOTATION
    )
    if mark is None:
        return False
    release = await _release(writer, config)
    if mark == release and release != NO_RELEASE:
        return True
    await _annotate(writer, None)
    return False


async def until_marked(reader: ports.Reader) -> None:
    """Return once GPUBinder is seen to bear the mark: whoever leads stops then."""
    seen = asyncio.Event()

    def look() -> None:
        if any(
            keys.TEARDOWN_ANNOTATION in item.meta.annotations for item in reader.items(GPUBinder)
        ):
            seen.set()

    end = reader.subscribe(look)
    try:
        look()
        await seen.wait()
    finally:
        end()


@dataclass(slots=True)
class _Work:
    writer: ports.Writer
    config: Config
    release_gates: bool = field(kw_only=True)
    report: Report = field(kw_only=True)
    # Dicts as ordered sets: a thing that had to be done twice is told once.
    removed: dict[str, None] = field(default_factory=dict)
    released: dict[str, None] = field(default_factory=dict)
    ungated: dict[ObjectKey, None] = field(default_factory=dict)
    gated: list[ObjectKey] = field(default_factory=list)
    failures: dict[str, None] = field(default_factory=dict)
    worked: bool = False
    """This sweep changed something, or could not tell whether it did."""

    async def until_quiet(self) -> None:
        """Sweep until a sweep, not the first, finds nothing to do or only what stays refused.

        Our own policies are in force a second after they went, so one sweep more when something was
        refused, and when something was removed: a claim made meanwhile got our finalizer still.
        """
        sweeps = 0
        refused_before: list[str] = []
        while True:
            await self._sweep()
            sweeps += 1
            refused = list(self.failures)
            enough = 2 if refused or self.removed else 1
            if not self.worked and sweeps > enough and refused == refused_before:
                return
            refused_before = refused
            await asyncio.sleep(QUIET)

    async def _sweep(self) -> None:
        self.worked = False
        self.failures.clear()
        await self._try("mark GPUBinder", self._mark())
        await self._try("give the host's APIService back", self._give_back())
        await self._remove(kinds.API_SERVICES, API_SERVICE)
        for kind in (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS):
            await self._remove(kind, WEBHOOKS)
        for kind in (kinds.MUTATING_POLICY_BINDINGS, kinds.MUTATING_POLICIES):
            await self._remove(kind, FINALIZING)
        # Bindings first: a policy without one judges nothing, a binding without one may.
        for kind in (kinds.POLICY_BINDINGS, kinds.POLICIES):
            await self._try(f"list {kind.resource}", self._remove_policies(kind))
        for kind, finalizer in _FINALIZED:
            await self._try(f"list {kind.resource}", self._release_all(kind, finalizer))
        await self._try("list pods", self._gates())

    async def _mark(self) -> None:
        binder = await stored.find(self.writer, kinds.GPU_BINDERS, keys.BINDER_NAME)
        release = await _release(self.writer, self.config)
        if binder is None:
            meta = {
                "name": keys.BINDER_NAME,
                "annotations": {keys.TEARDOWN_ANNOTATION: release},
            }
            await self.writer.create(kinds.GPU_BINDERS, {"metadata": meta})
        elif (binder["metadata"].get("annotations") or {}).get(keys.TEARDOWN_ANNOTATION) != release:
            await _annotate(self.writer, release)
        else:
            return
        self.worked = True
        self.report("marked GPUBinder: the leader puts nothing back")

    async def _give_back(self) -> None:
        if await takeover.give_back(self.writer):
            self.worked = True
            self.report(f"gave APIService {takeover.HOST_API} back to the host")

    async def _remove(self, kind: Kind, name: str, uid: str | None = None) -> None:
        what = f"{kind.kind} {name}"
        if await self._try(f"delete {what}", self.writer.delete(kind, name, uid=uid)):
            self.removed[what] = None
            self.worked = True
            self.report(f"removed {what}")

    async def _remove_policies(self, kind: Kind) -> None:
        stay = {
            name
            for policy in bundle.policies(self.config)
            if policy.stay is Stay.FOREVER
            for name in (policy.name, *map(policy.binding_name, policy.bindings))
        }
        for live in (await self.writer.list_all(kind)).items:
            meta = live["metadata"]
            if shapes.is_ours(live) and meta["name"] not in stay:
                await self._remove(kind, meta["name"], meta["uid"])

    async def _release_all(self, kind: Kind, finalizer: str) -> None:
        for live in (await self.writer.list_all(kind)).items:
            meta = live["metadata"]
            have = meta.get("finalizers") or []
            if finalizer not in have:
                continue
            patch = _at(meta, {"finalizers": [item for item in have if item != finalizer]})
            what = f"{kind.kind} {_key(meta)}"
            write = self.writer.patch(kind, meta["name"], patch, meta.get("namespace"))
            if await self._try(f"take the finalizer off {what}", write):
                self.released[what] = None
                self.worked = True

    async def _gates(self) -> None:
        self.gated = []
        for live in (await self.writer.list_all(kinds.PODS)).items:
            gates = live["spec"].get("schedulingGates") or []
            if not any(gate["name"] == keys.PLACEMENT_GATE for gate in gates):
                continue
            key = _key(live["metadata"])
            if not (self.release_gates and await self._ungate(live, gates)):
                self.gated.append(key)

    async def _ungate(self, pod: Document, gates: list[Document]) -> bool:
        meta = pod["metadata"]
        rest = [gate for gate in gates if gate["name"] != keys.PLACEMENT_GATE]
        patch = _at(meta, {}) | {"spec": {"schedulingGates": rest}}
        write = self.writer.patch(kinds.PODS, meta["name"], patch, meta["namespace"])
        done = await self._try(f"ungate pod {_key(meta)}", write)
        if done:
            self.ungated[_key(meta)] = None
            self.worked = True
            self.report(f"ungated pod {_key(meta)}: the scheduler places it anywhere")
        return done

    async def _try(self, what: str, step: Awaitable[object]) -> bool:
        """Say whether the step was done; what is not there need not be, a conflict comes again."""
        try:
            await step
        except Exception as error:
            match self.writer.outcome(error):
                case None:
                    raise
                case ports.Outcome.GONE:
                    pass
                case ports.Outcome.CONFLICT | ports.Outcome.STALE:
                    self.worked = True
                case ports.Outcome.UNKNOWN:
                    self.worked = True
                    self.failures[f"could not {what}: {error}"] = None
                case ports.Outcome.REFUSED:
                    self.failures[f"could not {what}: {error}"] = None
            return False
        return True


async def _release(writer: ports.Writer, config: Config) -> str:
    role = await stored.find(writer, kinds.CLUSTER_ROLES, config.owner_cluster_role)
    return NO_RELEASE if role is None else str(role["metadata"]["uid"])


async def _annotate(writer: ports.Writer, mark: str | None) -> None:
    patch = {"metadata": {"annotations": {keys.TEARDOWN_ANNOTATION: mark}}}
    await writer.patch(kinds.GPU_BINDERS, keys.BINDER_NAME, patch)


def _at(meta: Document, changes: Document) -> dict[str, Any]:
    """Return a patch of metadata that is refused when the object has changed meanwhile."""
    return {"metadata": {"resourceVersion": meta["resourceVersion"], **changes}}


def _key(meta: Document) -> ObjectKey:
    return ObjectKey(meta.get("namespace", ""), meta["name"])


def _conclude(result: Result, report: Report) -> None:
    if result.released:
        report(f"took our finalizer off {len(result.released)} claims and classes")
    report("kept: GPUClaims, GPUClasses, GPUNodes and their CRDs, the settings, the keeper policy")
    for key in result.gated:
        report(f"still at the gate: pod {key} (--release-gates lets the scheduler place it)")
    for failure in result.failures:
        report(failure)
    if result.clean:
        report("torn down: any namespace can be deleted now, and a later install finds the holds")
