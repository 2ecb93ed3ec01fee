"""Starts that ask the leader (`binding: request`), as raw objects the way the webhook leaves them."""

from collections.abc import Iterable
from typing import Any

from gpu import keys
from gpu.config import Binding, Config
from gpu.model import template_claims
from gpu.units import ClassName
from tests.binder import raws

Raw = raws.Raw
CONFIG = Config(binding=Binding.REQUEST)
OFF = Config(binding=Binding.REQUEST, enabled=False)
SINCE = "2026-01-01T11:59:50Z"
"""When the webhook attached and asked; `scenes.NOW` is ten seconds later."""


def request(
    names: Iterable[str], *, vm: str = "vm", id_: str = "r1", at: str = SINCE, **more: Any
) -> Raw:
    """`status.bindRequest`, with result and message if they are given."""
    asked = {"id": id_, "vmi": vm, "claims": sorted(names), "requestedAt": at}
    return {"bindRequest": asked | more}


def claim(
    name: str,
    node: str | None = None,
    *,
    lost: str | None = None,
    asks: Iterable[str] | None = ("a",),
    vm: str = "vm",
    id_: str = "r1",
    since: str = SINCE,
    template: bool = False,
    answer: Raw | None = None,
    meta: Raw | None = None,
    status: Raw | None = None,
    **more: Any,
) -> Raw:
    """A claim that a start is attached to, Bound to `node`, Lost from `lost`, else Pending.

    `asks` are the claims its request names; None for no request yet.
    """
    stands = raws.bound(node or lost or "") if node or lost else {}
    if lost:
        stands["phase"] = "Lost"
    stands |= raws.attached(vm, admission=id_, since=since)
    if asks is not None:
        stands |= request(asks, vm=vm, id_=id_, at=since, **(answer or {}))
    labels = {"labels": {keys.TEMPLATE_CLAIM_LABEL: "true"}} if template else {}
    own = {"finalizers": [keys.CLAIM_FINALIZER]} | labels | (meta or {})
    return raws.a_claim(name, meta=own, status=stands | (status or {}), **more)


def template(vm: str = "vm", class_name: str = "h100", tenant: str = "tenant-a") -> str:
    """The name of the claim that is made for a start's units of a class."""
    return str(template_claims.requested_name(tenant, vm, ClassName(class_name)))
