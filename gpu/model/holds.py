"""Holds: whether launchers can take held units past the gate, as things are set up (domain contract 5).

Where they can, a claim of a stopped VM may find its units in use when it starts again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from gpu import keys
from gpu.config import Config, PolicyMode, RawPlacement
from gpu.model import launch_webhooks
from gpu.objects.webhooks import Webhooks
from gpu.settings import RawNames


class Gap(StrEnum):
    """How launchers come past the gate: the reason of condition HoldsNotEnforced."""

    SCHEDULER = "SchedulerPlaces"
    OFF = "WebhooksOff"
    MISSING = "WebhooksMissing"
    CHANGED = "WebhooksChanged"


@dataclass(frozen=True, slots=True)
class Found:
    """One gap, in words that say what closes it."""

    gap: Gap
    words: str


def gaps(config: Config, stored: Iterable[Webhooks]) -> tuple[Found, ...]:
    """Return every gap; `stored` are MutatingWebhookConfigurations, of which ours alone counts."""
    is_open = config.raw_names is RawNames.ALLOWED
    found: list[Found] = []
    if is_open and config.raw_placement is RawPlacement.SCHEDULER:
        words = (
            "rawPlacement is scheduler: launchers that name a resource are placed past every hold"
        )
        found.append(Found(Gap.SCHEDULER, words))
    if not config.vm_webhooks:
        # Without the policies a tenant may name resources whatever is allowed: nobody refuses it.
        if is_open or config.policies is PolicyMode.OFF:
            words = (
                "vmWebhooks is off and resources can be named: nobody holds launchers at the gate"
            )
            found.append(Found(Gap.OFF, words))
        return tuple(found)
    ours = next((item for item in stored if item.meta.name == keys.WEBHOOKS_NAME), None)
    if ours is None:
        words = (
            f"MutatingWebhookConfiguration {keys.WEBHOOKS_NAME} is not there: nobody holds launchers at "
            "the gate; helm upgrade puts it back"
        )
        return (*found, Found(Gap.MISSING, words))
    changed = sorted(_changed(config, ours))
    if changed:
        words = (
            f"MutatingWebhookConfiguration {keys.WEBHOOKS_NAME} is not the chart's in "
            f"{'; '.join(changed)}: launchers may pass the gate, or VMs not start; helm upgrade puts it "
            "back"
        )
        found.append(Found(Gap.CHANGED, words))
    return tuple(found)


def _changed(config: Config, ours: Webhooks) -> Iterator[str]:
    """Yield the names of webhooks that are gone, or not as the chart has them, and in what."""
    by_name = {item.name: item for item in ours.webhooks}
    for wanted in launch_webhooks.expected(config):
        found = by_name.pop(wanted.name, None)
        if found is None:
            yield f"{wanted.name} (taken out)"
        elif differs := wanted.differs(found):
            yield f"{wanted.name} ({', '.join(differs)})"
    yield from (f"{name} (put in)" for name in by_name)
