"""Who may do what to usage records, their monitor and the settings: objects of kinds that are the host's."""

from typing import Any, Final

from gpu import keys
from gpu.objects import kinds
from tests.real.policy_rows import (
    ADMINS,
    CONTROLLER,
    PEOPLE,
    TENANT,
    Row,
    create,
    delete,
    meta,
    patch,
)

RECORD: Final = f"{keys.USAGE_RECORD_PREFIX}held"
FOREIGN: Final = f"{keys.USAGE_RECORD_PREFIX}foreign"
"""A Workload in the way of a record: no GPUClaim owns it."""
HOSTS: Final = "pod-launcher"
MONITOR: Final = keys.USAGE_MONITOR_NAME
BROAD: Final = (*ADMINS, "kubevirt", "virt-handler", "other account of ours")
NO_WRITERS: Final = (*PEOPLE, "scheduler", "node", "pod collector", "replica sets", "hoster")
SETTINGS: Final = {"namespace": keys.SETTINGS_NAMESPACE}
USED: Final = {"kind": "gpuclaim", "type": "h100", "resources": {"gpu.cozystack.io/h100": "1"}}


def owned(uid: str = "u") -> list[dict[str, Any]]:
    """Return the owner references of a record."""
    claim = kinds.GPU_CLAIMS
    return [{"apiVersion": claim.api_version, "kind": claim.kind, "name": "held", "uid": uid}]


def _recorded(name: str) -> str:
    return (
        f"workload {TENANT}/{name}: the GPU controller ({CONTROLLER}) alone writes what is named "
        f"{keys.USAGE_RECORD_PREFIX}..., the record of a gpuclaim's usage; it goes when the "
        "gpuclaim does"
    )


_WATCHED = (
    f"workloadmonitor {TENANT}/{MONITOR}: the GPU controller ({CONTROLLER}) alone writes it; "
    "without it the host deletes the usage records of this namespace"
)
_SET = (
    f"configmap {keys.SETTINGS_NAMESPACE}/{keys.SETTINGS_NAME}: only the GPU controller "
    f"({CONTROLLER}) writes it; change rawResourceNames in the chart's values, or a GPUClass, and "
    "it follows"
)

RECORDS: Final = (
    Row(
        what="a record is made",
        ask=create(
            kinds.WORKLOADS,
            f"{keys.USAGE_RECORD_PREFIX}new",
            meta={"ownerReferences": owned()},
            status=USED,
        ),
        passes=("controller",),
        rbac=(*NO_WRITERS, "namespaces", "collector"),
        policy=("host", *BROAD),
        topic="usage-records",
        words=_recorded(f"{keys.USAGE_RECORD_PREFIX}new"),
    ),
    Row(
        what="what nobody owns is named as a record",
        ask=create(kinds.WORKLOADS, f"{keys.USAGE_RECORD_PREFIX}new", status=USED),
        policy=("host", "masters"),
        topic="usage-records",
        words=_recorded(f"{keys.USAGE_RECORD_PREFIX}new"),
    ),
    Row(
        what="a record is changed",
        ask=patch(
            kinds.WORKLOADS, RECORD, {"status": {"resources": {"gpu.cozystack.io/h100": "0"}}}
        ),
        passes=("controller", "collector"),
        rbac=(*NO_WRITERS, "namespaces"),
        policy=("host", *BROAD),
        topic="usage-records",
        words=_recorded(RECORD),
    ),
    Row(
        what="a record loses its owner",
        ask=patch(kinds.WORKLOADS, RECORD, meta(ownerReferences=None)),
        passes=("controller", "collector"),
        policy=("host", *BROAD),
        topic="usage-records",
        words=_recorded(RECORD),
    ),
    Row(
        what="a record is deleted",
        ask=delete(kinds.WORKLOADS, RECORD),
        passes=("controller", "host", "collector", "namespaces"),
        rbac=NO_WRITERS,
        policy=BROAD,
        topic="usage-records",
        words=_recorded(RECORD),
    ),
    Row(
        what="what is in a record's way is changed",
        ask=patch(kinds.WORKLOADS, FOREIGN, meta(labels={"a": "b"})),
        passes=(*ADMINS, "host"),
        rbac=PEOPLE,
    ),
    Row(
        what="what is in a record's way is deleted",
        ask=delete(kinds.WORKLOADS, FOREIGN),
        passes=(*ADMINS, "host"),
        rbac=PEOPLE,
    ),
    Row(
        what="what is in a record's way is made one",
        ask=patch(kinds.WORKLOADS, FOREIGN, meta(ownerReferences=owned())),
        policy=("host", *ADMINS),
        topic="usage-records",
        words=_recorded(FOREIGN),
    ),
    *(
        Row(what=f"the host's own record: {what}", ask=ask, passes=("host", *ADMINS), rbac=PEOPLE)
        for what, ask in (
            ("made", create(kinds.WORKLOADS, "pod-new", status=USED)),
            ("changed", patch(kinds.WORKLOADS, HOSTS, {"status": {"operational": True}})),
            ("deleted", delete(kinds.WORKLOADS, HOSTS)),
        )
    ),
)

MONITORS: Final = (
    Row(
        what="our monitor is changed",
        ask=patch(kinds.WORKLOAD_MONITORS, MONITOR, {"spec": {"selector": {"a": "b"}}}),
        passes=("controller", "collector"),
        rbac=(*NO_WRITERS, "namespaces"),
        policy=("host", *BROAD),
        topic="usage-monitor",
        words=_WATCHED,
    ),
    Row(
        what="our monitor is deleted",
        ask=delete(kinds.WORKLOAD_MONITORS, MONITOR),
        passes=("collector", "namespaces"),
        rbac=(*NO_WRITERS, "controller"),
        policy=("host", *BROAD),
        topic="usage-monitor",
        words=_WATCHED,
    ),
    Row(
        what="the status of our monitor",
        ask=patch(
            kinds.WORKLOAD_MONITORS,
            MONITOR,
            {"status": {"operational": True}},
            subresource="status",
        ),
        passes=("host", *ADMINS),
        rbac=PEOPLE,
    ),
    Row(
        what="a monitor of the host's",
        ask=create(kinds.WORKLOAD_MONITORS, "postgres", spec={"selector": {"a": "b"}}),
        passes=("host", *ADMINS),
        rbac=PEOPLE,
    ),
)

THE_SETTINGS: Final = (
    Row(
        what="the settings are changed",
        ask=patch(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, {"data": {"a": "b"}}, **SETTINGS),
        passes=("controller",),
        rbac=(*PEOPLE, "scheduler", "node", "namespaces", "hoster"),
        policy=("host", *BROAD, "collector"),
        topic="settings",
        words=_SET,
    ),
    Row(
        what="the settings are deleted",
        ask=delete(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, **SETTINGS),
        passes=("namespaces", "collector", "controller"),
        rbac=(*PEOPLE, "scheduler", "node", "hoster", "host"),
        policy=BROAD,
        topic="settings",
        words=_SET,
    ),
)

ROWS: Final = (*RECORDS, *MONITORS, *THE_SETTINGS)
