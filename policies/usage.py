"""Usage records and the monitor they are kept under: written by the controller alone.

A record is a Workload with a record's name that a GPUClaim owns. The name is taken even before: who
makes another Workload of such a name is refused, and what bears one and is no claim's may be
changed and deleted by whoever may. The host deletes Workloads without a monitor; that must stay
possible, since the leader learns from it under which monitor to keep them. What deletes a namespace
or what belonged to a claim passes too.
"""

from typing import Final

from gpu import keys
from gpu.config import Config
from gpu.objects import kinds
from policies import cel, tenants, users
from policies.shapes import Named, Policy, Rule, Validation

_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")
_CREATES: Final = "request.operation == 'CREATE'"
_DELETES: Final = "request.operation == 'DELETE'"
# A collection is deleted object by object, each seen as oldObject; on create object has the name,
# a generated one too.
_NAME: Final = "(object != null ? object : oldObject).metadata.name"


def policies(config: Config) -> tuple[Policy, ...]:
    """Return the policies of the records and of the monitor; both wait for the host's kinds."""
    return (_records(config), _monitor(config))


def _is_owned(workload: str) -> str:
    return (
        f"{workload} != null && {workload}.metadata.?ownerReferences.orValue([]).exists(r, "
        f"r.kind == {cel.quote(kinds.GPU_CLAIMS.kind)} "
        f"&& r.apiVersion.startsWith({cel.quote(keys.GROUP + '/')}))"
    )


def _records(config: Config) -> Policy:
    is_record = cel.any_of(_CREATES, _is_owned("object"), _is_owned("oldObject"))
    named = f"{_NAME}.startsWith({cel.quote(keys.USAGE_RECORD_PREFIX)})"
    return Policy(
        topic="usage-records",
        rule=Rule(kind=kinds.WORKLOADS, operations=_OPERATIONS),
        conditions=(tenants.CONDITION, Named("is-a-record", cel.all_of(named, is_record))),
        validations=(
            Validation(
                expression=_may_write(config, users.HOST_CONTROLLER),
                message=cel.message(
                    "workload {namespace}/{name}: the GPU controller "
                    f"({config.controller_user}) alone writes what is named "
                    f"{keys.USAGE_RECORD_PREFIX}..., the record of a gpuclaim's usage; it goes when "
                    "the gpuclaim does",
                    namespace="request.namespace",
                    name=_NAME,
                ),
                fallback="usage records are written by the GPU controller alone",
            ),
        ),
        bindings=tenants.bindings(),
        optional=True,
    )


def _monitor(config: Config) -> Policy:
    return Policy(
        topic="usage-monitor",
        rule=Rule(kind=kinds.WORKLOAD_MONITORS, operations=_OPERATIONS),
        conditions=(
            tenants.CONDITION,
            Named("is-our-monitor", f"{_NAME} == {cel.quote(keys.USAGE_MONITOR_NAME)}"),
        ),
        validations=(
            Validation(
                expression=_may_write(config),
                message=cel.message(
                    "workloadmonitor {namespace}/{name}: the GPU controller "
                    f"({config.controller_user}) alone writes it; without it the host deletes the "
                    "usage records of this namespace",
                    namespace="request.namespace",
                    name=_NAME,
                ),
                fallback="the monitor of usage records is written by the GPU controller alone",
            ),
        ),
        bindings=tenants.bindings(),
        optional=True,
    )


def _may_write(config: Config, *deleters: str) -> str:
    """Say that the controller asks, a cleaner that makes nothing, or a deleter that deletes."""
    cleaned = cel.all_of(f"!({_CREATES})", users.is_one_of(*users.CLEANERS))
    deleted = cel.all_of(_DELETES, users.is_one_of(*deleters)) if deleters else ""
    return cel.any_of(users.is_controller(config), cleaned, *((deleted,) if deleted else ()))
