"""May a tenant's VM have the units its template asks for: class, entitlement, all budgets at once.

Template claims are made with a plan that fits, so they pass no order; this is what is asked of them
before. How many of a class one claim may have is asked when the VM is admitted, and room on a node
with the set. Units of several classes count together under `total` and a resource they share.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from gpu import keys
from gpu.model import budgets, cases, entry, refusals
from gpu.model.draft import Draft
from gpu.model.refusals import Refusal
from gpu.model.starts import Start
from gpu.units import ClassName, QuotaKey, ResourceName, TenantName, Units


def refused(
    draft: Draft,
    tenant: TenantName,
    wanted: Mapping[ClassName, Units],
    raw: Mapping[ResourceName, Units] | None = None,
) -> tuple[Refusal, ...]:
    """Return every reason against so many units of each class, beyond what is there already.

    `raw` are units the VM asks for by the name of their resource. The draft's budgets count what its
    asker had them count: see `Draft.count_older`.
    """
    units: Counter[QuotaKey] = Counter()
    for resource, amount in (raw or {}).items():
        units[QuotaKey(resource)] += amount
        units[QuotaKey(keys.QUOTA_TOTAL)] += amount
    for name, amount in wanted.items():
        for key in draft.snapshot.quota_keys(name):
            units[key] += amount
    asked = {key: Units(amount) for key, amount in units.items()}
    return (
        *_entry(draft, tenant, wanted),
        *budgets.over_each(draft.ledger, tenant, asked),
    )


def of_start(draft: Draft, start: Start) -> tuple[Refusal, ...]:
    """Return what bars the units that a start would hold anew: those it holds are no order."""
    new = start.new_units
    if not new and not start.raw:
        return ()
    return (
        *cases.no_tenant(start.tenant),
        *_too_many(draft, new),
        *refused(draft, start.tenant, new, start.raw),
    )


def _too_many(draft: Draft, wanted: Mapping[ClassName, Units]) -> Iterator[Refusal]:
    for name, units in wanted.items():
        offer = draft.snapshot.classes.get(name)
        most = cases.max_count(offer) if offer else None
        if most is not None and units > most:
            yield refusals.OverMaxCount(name, units, most)


def _entry(
    draft: Draft, tenant: TenantName, wanted: Mapping[ClassName, Units]
) -> Iterator[Refusal]:
    for name in wanted:
        offer = draft.snapshot.classes.get(name)
        if offer is None:
            yield refusals.NoSuchClass(name)
        else:
            yield from entry.barred(draft.snapshot, tenant, offer)
