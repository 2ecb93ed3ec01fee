"""Nodes that refused a launcher: what a leader is known to have seen of them, and that it goes there no more.

Only what an undisturbed pass was the first to see is held against a leader: by then it had looked at
everything as it was. Who leads later knows what claims note, and nothing else.
"""

from dataclasses import dataclass, field

from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import kubevirt as virt
from soak.leader import Leader
from soak.site import SKEWS, Raw, Site

SKIPPED = 600.0 - 2 * SKEWS
"""Seconds for which the node is skipped at least, unless it changes, whoever leads then."""


@dataclass(frozen=True)
class Refusal:
    """One launcher that its node refused."""

    vm: str
    """`namespace/name`."""
    node: str
    until: float
    look: tuple[str, ...]
    """What the node took pods by; once it is another the refusal counts no more."""
    leader: Leader
    claims: frozenset[str]
    """Uids of those that note it."""


@dataclass
class Refusals:
    """Those that stand."""

    site: Site
    standing: list[Refusal] = field(default_factory=list)
    _seen: int = -1

    def refresh(self) -> None:
        """Forget those whose node has changed since."""
        seen = self.site.api.counts[kinds.NODES]
        if seen != self._seen:
            self._seen = seen
            self.standing = [it for it in self.standing if look_of(self.site, it.node) == it.look]

    def unseen(self) -> list[Raw]:
        """Return refused launchers that no leader has looked at yet."""
        refused = self.site.refused
        return [
            pod
            for pod in self.site.api.all(kinds.PODS)
            if refused.get(pod["metadata"]["uid"], (-1, 0.0))[0] > self.site.looked
        ]

    def note(self, pods: list[Raw], leader: Leader) -> None:
        """Hold launchers against a leader that was the first to see them refused, in its last pass."""
        for pod in pods:
            node, meta = virt.pinned_to(pod), pod["metadata"]
            vm = f"{meta['namespace']}/{meta['ownerReferences'][0]['name']}"
            at = self.site.refused[meta["uid"]][1]
            claims = frozenset(
                claim["metadata"]["uid"]
                for claim in self.site.claims()
                if claim["metadata"]["namespace"] == meta["namespace"] and is_noted(claim, node)
            )
            look = look_of(self.site, node)
            self.standing.append(Refusal(vm, node, at + SKIPPED, look, leader, claims))
            self.site.tally["refusals held against a leader"] += 1

    def wrong(self, vm: str, node: str, uids: frozenset[str]) -> str:
        """Return why a set should not have gone to a node in an undisturbed pass; empty if it should.

        `uids` are those of its claims.
        """
        site = self.site
        noting = {it["metadata"]["uid"] for it in site.claims() if is_noted(it, node)}
        for one in self.standing:
            if one.node != node or site.clock.monotonic() >= one.until:
                continue
            if (one.vm == vm and one.leader is site.leader) or one.claims & uids & noting:
                return f"sent back: {vm} to {node}, which refused its launcher and has not changed"
        return ""


def look_of(site: Site, name: str) -> tuple[str, ...]:
    """What a node takes pods by."""
    node = site.api.find(kinds.NODES, ObjectKey("", name))
    if node is None:
        return ()
    spec, status = node["spec"], node["status"]
    taints = sorted(map(str, spec.get("taints") or []))
    ready = status["conditions"][0]["status"]
    return (*map(str, sorted(status["allocatable"].items())), *taints, str(spec), ready)


def is_noted(claim: Raw, node: str) -> bool:
    """Say whether a claim notes that a node refused the launcher of its VM."""
    noted = (claim.get("status") or {}).get("rejectedNodes") or []
    return any(one["node"] == node for one in noted)
