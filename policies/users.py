"""Who is exempt from a policy, by user name; a group never is, nor anything a tenant can write."""

from typing import Final

from gpu import keys
from gpu.config import Config
from policies import cel

CLEANERS: Final = (
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)
"""What deletes a namespace, or what belongs to something deleted; the last where
kube-controller-manager runs without --use-service-account-credentials. Nothing of ours may make
them hang."""

HOST_CONTROLLER: Final = f"system:serviceaccount:{keys.SETTINGS_NAMESPACE}:cozystack-controller"
"""The host's: deletes Workloads that belong to no WorkloadMonitor."""


def is_one_of(*names: str) -> str:
    """Say in CEL that one of these users asks."""
    return cel.one_of("request.userInfo.username", names)


def is_controller(config: Config) -> str:
    """Say in CEL that the controller asks."""
    return is_one_of(config.controller_user)


def is_not_controller(config: Config) -> str:
    """Say in CEL that somebody else than the controller asks."""
    return f"request.userInfo.username != {cel.quote(config.controller_user)}"
