"""Option sources for the dashboard's forms, in the host's shape."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.resources import base
from apiserver.wire.items import Row
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject
from gpu import keys
from gpu.model import offers
from gpu.model.offers import Offer
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass
from gpu.objects.tenants import Namespace
from gpu.settings import RawNames
from gpu.units import TenantName
from gpu.world import World

_SHOWN = 120
"""Characters of a Table cell that joins many values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One choice; empty members are left out of its JSON, the value never."""

    value: str
    label: str = ""
    description: str = ""

    def document(self) -> JsonObject:
        """As JSON."""
        shown = {"value": self.value, "label": self.label, "description": self.description}
        return {key: text for key, text in shown.items() if text or key == "value"}


def raw_names(world: World, _tenant: TenantName) -> Iterable[Item]:
    """Resource names a tenant may name directly: none while that is denied.

    The number is what the nodes have, used or not, as the host counts; no node is named.
    """
    if world.settings.raw_names is RawNames.DENIED:
        return
    for name in world.settings.resource_names:
        total = sum(node.allocatable.get(name, 0) for node in world.nodes)
        where = f"{total} available" if total else "not currently available on any node"
        yield Item(value=name, description=where)


def classes(world: World, tenant: TenantName) -> Iterable[Item]:
    """Classes that can be chosen, with what of them this tenant could order now."""
    known = {one.name: one for one in world.classes}
    for offer in offers.offers(world.snapshot, tenant):
        one = known.get(offer.class_name)
        if one is None or one.retired or one.meta.deleting:
            continue
        yield Item(
            value=f"{keys.CLASS_DEVICE_PREFIX}{one.name}",
            label=one.display_name,
            description=_described(one, offer),
        )


def _described(one: GPUClass, offer: Offer) -> str:
    """Say what it is in the hoster's words, then what of it there is now."""
    now = f"{offer.free} free, up to {offer.orderable} in one order"
    if not offer.orderable:
        now = f"none to order now: {offer.message}"
    return f"{one.description}; {now}" if one.description else now


def claims(world: World, tenant: TenantName) -> Iterable[Item]:
    """Claims of this tenant that are bound and that nothing uses."""
    for claim in world.claims_in(tenant):
        if _is_free(claim):
            units = "unit" if claim.count == 1 else "units"
            yield Item(
                value=f"{keys.CLAIM_DEVICE_PREFIX}{claim.meta.name}",
                description=f"{claim.count} {units} of {claim.class_name}",
            )


def _is_free(claim: GPUClaim) -> bool:
    return (
        claim.phase is Phase.BOUND
        and claim.attached_to is None
        and not claim.is_template
        and not claim.meta.deleting
    )


def quota_keys(world: World, _tenant: TenantName) -> Iterable[Item]:
    """Keys that `resourceQuotas` of a tenant may have."""
    yield Item(value=keys.QUOTA_TOTAL, description="units of all classes together")
    for one in world.classes:
        if not one.meta.deleting:
            yield Item(
                value=keys.quota_key_of_class(one.name),
                label=one.display_name,
                description=f"units of class {one.name}",
            )
    if world.settings.raw_names is RawNames.ALLOWED:
        for name in world.settings.resource_names:
            yield Item(value=name, description=f"units of {name}")


SOURCES: Final[Mapping[str, Callable[[World, TenantName], Iterable[Item]]]] = {
    "gpu": raw_names,
    "gpuclaim": claims,
    "gpuclass": classes,
    "gpuquotakey": quota_keys,
}


def rows(world: World, namespace: str) -> tuple[Row, ...]:
    """Return one Option per source; none in a namespace that does not exist."""
    home = base.namespace(world, namespace)
    if home is None:
        return ()
    tenant = TenantName(namespace)
    return tuple(_row(home, source, items(world, tenant)) for source, items in SOURCES.items())


def _row(home: Namespace, source: str, found: Iterable[Item]) -> Row:
    items = sorted(found, key=lambda item: item.value)
    values = ", ".join(item.value for item in items)
    spec: dict[str, Json] = {"items": [item.document() for item in items]} if items else {}
    return Row(
        namespace=home.meta.name,
        name=source,
        uid=base.uid("options", home.meta.name, source),
        created=home.meta.created,
        labels={keys.SOURCE_LABEL: source},
        body={"spec": spec},
        cells=(
            len(items),
            _cut(values),
            _cut("; ".join(item.description for item in items if item.description)),
        ),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


OPTIONS: Final = base.Resource(
    plural="options",
    singular="option",
    kind="Option",
    short_names=("gpuoptions",),
    description="Choices for the fields of a form, computed for a tenant.",
    columns=(
        Column(name="Items", type="integer", description="How many there are to choose from."),
        Column(name="Values", description="What a form would write into its field."),
        Column(name="Descriptions", description="What a form would show.", priority=1),
    ),
    rows=rows,
)
