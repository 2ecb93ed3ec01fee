"""Leader task: params, policies, bindings applied in that order through ports; drift healed.

A round applies what is missing or changed, and nothing else. A policy is never applied before the
kinds it matches are served, a binding never before the parameter it names. What an older version
left is removed last: only after a round that found everything current, so that both versions are in
force for a while and neither is missing for a moment.

That is what the API servers are told. Whether they do it, the canary asks them: every minute, at
once after the settings changed, and as soon as what a round wrote can be in force. Where one has
stopped following the settings, the bindings move on to a copy under a new name.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import structlog

from gpu import keys, ports
from gpu.config import Config, PolicyMode
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from policies import bundle, shapes, standing, stored
from policies.proof import Proof
from policies.revisions import Revisions
from policies.shapes import Binding, Document, Policy, Stay
from policies.standing import Reason, Standing

CHECK: Final = 30.0
"""Seconds between rounds that found nothing to do: how long drift lasts at most."""
SETTLE: Final = 3.0
"""Seconds until the next round after one that wrote; API servers compile once a second."""
RETRY: Final = 0.5
"""Seconds until the next round after the first that could not finish; doubled each time, to CHECK."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Round:
    """What one round met."""

    wrote: bool = False
    unserved: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    differ: list[str] = field(default_factory=list)
    settings: str = ""
    """Name of the ConfigMap that the policies read."""
    in_question: bool = False
    """Everything is stored as meant: what is left to know is whether it is in force."""


class Keeper:
    """Keeps the policies while this replica leads; `run` until cancelled, `wake` to look at once."""

    def __init__(
        self,
        writer: ports.Writer,
        config: Config,
        *,
        report: standing.Report,
        leading: Callable[[], bool] = lambda: True,
        proof: Proof | None = None,
    ) -> None:
        """`leading` is asked before each write: a replica that was frozen must write nothing.

        Without a proof, what is stored is all that is told.
        """
        self._writer = writer
        self._config = config
        self._report = report
        self._leading = leading
        self._wake = asyncio.Event()
        self._logged: Standing | None = None
        self._retry = RETRY / 2
        self._proof = proof
        self._revisions = Revisions(writer, config, leading=leading)

    def wake(self) -> None:
        """Look at once: a kind is served now, or the settings have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Keep the policies until cancelled. Raises only what is no answer of the API server."""
        while True:
            self._wake.clear()
            wait = await self.once()
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def once(self) -> float:
        """Do one round; return the seconds until the next."""
        met = _Round()
        try:
            found = await self._proved(await self._round(met), met)
        except Exception as error:
            if not self._is_answer(error):
                raise
            found = Standing(reason=Reason.WRITE_FAILED, message=f"asked again soon: {error}")
        await self._tell(found)
        if found.reason in {Reason.WRITE_FAILED, Reason.PARAMETER_MISSING, Reason.KIND_NOT_SERVED}:
            self._retry = min(self._retry * 2, CHECK)
            return self._retry
        self._retry = RETRY / 2
        if met.wrote:
            return SETTLE
        return min(CHECK, self._proof.due_in) if self._proof and met.in_question else CHECK

    async def _tell(self, found: Standing) -> None:
        if not self._leading():
            return
        if found != self._logged:
            (log.info if found.current else log.warning)(
                "policies judged", reason=found.reason.value, detail=found.message
            )
            self._logged = found
        try:
            await self._report(found)
        except Exception as error:
            if not self._is_answer(error):
                raise
            log.warning("standing of the policies not told", error=str(error))

    async def _proved(self, found: Standing, met: _Round) -> Standing:
        """Return what the API servers have shown of policies that are stored as meant."""
        if self._proof is None or not found.current or not self._leading():
            return found
        met.in_question = True
        return await self._proof.of(
            found, name=met.settings, wrote=met.wrote, revisions=self._revisions
        )

    async def _round(self, met: _Round) -> Standing:
        binder = await stored.find(self._writer, kinds.GPU_BINDERS, keys.BINDER_NAME)
        if binder is not None and torn_down(binder):
            return Standing(
                reason=Reason.TEARING_DOWN,
                message=f"nothing is kept while GPUBinder {keys.BINDER_NAME} bears annotation "
                f"{keys.TEARDOWN_ANNOTATION}; take it off to go on",
            )
        met.settings = await self._revisions.current(binder)
        settings = await self._revisions.follow(met.settings)
        if self._proof is not None:
            self._proof.look_at(settings)
        every = bundle.reading(bundle.policies(self._config), met.settings)
        policies = await self._served(every, met)
        mine = {policy.topic for policy in bundle.kept(self._config)}
        owner = await self._owner()
        for policy in policies:
            document = _owned(policy.document(), policy, owner)
            await self._bring(kinds.POLICIES, document, met, check_only=policy.topic not in mine)
        for policy, binding in self._bindings(policies):
            if policy.name in met.failed or not await self._param_there(policy, binding, met):
                continue
            document = _owned(policy.binding_document(binding), policy, owner)
            await self._bring(
                kinds.POLICY_BINDINGS, document, met, check_only=policy.topic not in mine
            )
        if not (met.wrote or met.failed or met.missing):
            await self._remove_others(met)
            await self._revisions.tidy(met.settings)
        return self._judge(met)

    def _bindings(self, policies: tuple[Policy, ...]) -> Iterator[tuple[Policy, Binding]]:
        for policy in policies:
            for binding in bundle.wanted_bindings(policy, enabled=self._config.enabled):
                yield policy, binding

    async def _served(self, policies: tuple[Policy, ...], met: _Round) -> tuple[Policy, ...]:
        """Return the policies that this mode looks at and whose kinds are served."""
        looked_at = [
            policy
            for policy in policies
            if policy.stay is not Stay.MANAGED or self._config.policies is not PolicyMode.OFF
        ]
        served: dict[Kind, bool] = {}
        for kind in sorted({kind for policy in looked_at for kind in policy.needs}, key=str):
            served[kind] = await self._is_served(kind)
        met.unserved += sorted(
            {
                kind.resource
                for policy in looked_at
                for kind in policy.needs
                if not served[kind] and not policy.optional
            }
        )
        return tuple(policy for policy in looked_at if all(served[kind] for kind in policy.needs))

    async def _is_served(self, kind: Kind) -> bool:
        definition = await stored.find(self._writer, kinds.CRDS, kind.resource)
        conditions = ((definition or {}).get("status") or {}).get("conditions") or []
        return any(
            item.get("type") == "Established" and item.get("status") == "True"
            for item in conditions
        )

    async def _param_there(self, policy: Policy, binding: Binding, met: _Round) -> bool:
        """Say whether a binding's parameter exists; one that is bound already stays as it is."""
        param, kind = binding.param, policy.param_kind
        if param is None or kind is None:
            return True
        found = await stored.find(self._writer, kind, param.name, param.namespace or None)
        if found is None:
            where = f"{param.namespace}/" if param.namespace else ""
            text = f"{kind.kind} {where}{param.name}"
            if text not in met.missing:
                met.missing.append(text)
        return found is not None

    async def _owner(self) -> Document | None:
        role = await stored.find(self._writer, kinds.CLUSTER_ROLES, self._config.owner_cluster_role)
        if role is None:
            return None
        return {
            "apiVersion": kinds.CLUSTER_ROLES.api_version,
            "kind": kinds.CLUSTER_ROLES.kind,
            "name": role["metadata"]["name"],
            "uid": role["metadata"]["uid"],
        }

    async def _bring(
        self, kind: Kind, document: Document, met: _Round, *, check_only: bool
    ) -> None:
        name = document["metadata"]["name"]
        if check_only:
            live = await stored.find(self._writer, kind, name)
            if live is None or stored.differs(live, _ownerless(document)):
                met.differ.append(f"{kind.kind} {name}")
            return
        try:
            if await stored.bring(self._writer, kind, document, leading=self._leading):
                met.wrote = True
                log.info("policy applied", kind=kind.kind, name=name)
        except stored.NotHealedError as error:
            met.failed.append(name)
            log.warning("policy not applied", kind=kind.kind, name=name, error=str(error))
        except Exception as error:
            # Anything but a definite no ends the round: the API server is not there to ask.
            if self._writer.outcome(error) is not ports.Outcome.REFUSED:
                raise
            met.failed.append(name)
            log.warning("policy not applied", kind=kind.kind, name=name, error=str(error))

    async def _remove_others(self, met: _Round) -> None:
        """Take out what an older version left, and what this mode or the switch does not want."""
        if self._config.policies is PolicyMode.RENDERED:
            return
        policies = bundle.kept(self._config)
        bindings = {policy.binding_name(binding) for policy, binding in self._bindings(policies)}
        await self._remove(kinds.POLICY_BINDINGS, bindings, met)
        await self._remove(kinds.POLICIES, {policy.name for policy in policies}, met)

    async def _remove(self, kind: Kind, wanted: set[str], met: _Round) -> None:
        listing = await self._writer.list_all(kind)
        for live in listing.items:
            name = live["metadata"]["name"]
            if name in wanted or not shapes.is_ours(live) or not self._leading():
                continue
            try:
                await self._writer.delete(kind, name, uid=live["metadata"]["uid"])
            except Exception as error:
                if self._writer.outcome(error) is not ports.Outcome.GONE:
                    raise
            met.wrote = True
            log.info("policy removed", kind=kind.kind, name=name)

    def _judge(self, met: _Round) -> Standing:
        if met.failed:
            return Standing(
                reason=Reason.WRITE_FAILED,
                message=f"refused by the API server: {_some(met.failed)}",
            )
        if met.unserved:
            return Standing(
                reason=Reason.KIND_NOT_SERVED,
                message=f"not served: {_some(met.unserved)}; install the chart's CRDs",
            )
        if met.missing:
            return Standing(
                reason=Reason.PARAMETER_MISSING,
                message=f"not there: {_some(met.missing)}; the leader writes it in its next pass",
            )
        if met.differ:
            return Standing(
                reason=Reason.RENDERED_DIFFER,
                message=f"missing or changed: {_some(met.differ)}; apply the chart's documents anew",
            )
        return _settled(self._config.policies)

    def _is_answer(self, error: Exception) -> bool:
        return self._writer.outcome(error) is not None


def torn_down(binder: Document) -> bool:
    """Say whether GPUBinder tells the leader to put nothing back."""
    return keys.TEARDOWN_ANNOTATION in (binder["metadata"].get("annotations") or {})


def _settled(mode: PolicyMode) -> Standing:
    if mode is PolicyMode.OFF:
        return Standing(
            reason=Reason.OFF,
            message="policies.mode is off: tenants may forge placements and name raw GPUs; only an "
            "earlier leader is fenced",
        )
    if mode is PolicyMode.RENDERED:
        return Standing(reason=Reason.RENDERED, message="kept by others, and as they should be")
    return Standing(
        reason=Reason.CURRENT, message="every policy is stored as this version means it"
    )


def _owned(document: Document, policy: Policy, owner: Document | None) -> Document:
    if owner is None or policy.stay is Stay.FOREVER:
        return document
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [owner]}}


def _ownerless(document: Document) -> Document:
    meta = {key: value for key, value in document["metadata"].items() if key != "ownerReferences"}
    return {**document, "metadata": meta}


def _some(names: list[str], at_most: int = 5) -> str:
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")
