"""What the chart grants to the process: every verb its code uses, and no other; tests pin it."""

from typing import Final

from apiserver import takeover, teardown
from gpu import keys
from gpu.cluster import endpoints

Names = tuple[str, ...]
Granted = dict[tuple[str, Names], tuple[str, ...]]
"""Verbs of a resource (`plural.group`, `plural/subresource.group`), limited to names or to none."""

READ: Final = ("get", "list", "watch")
FOLLOW: Final = ("list", "watch")
KEEP: Final = ("get", "list", "create", "patch", "delete")
ADMISSION: Final = "admissionregistration.k8s.io"

PROCESS: Final[Granted] = {
    # Direct reads follow writes with an unclear outcome; finalizers are patched in.
    ("gpuclasses.gpu.cozystack.io", ()): (*READ, "patch"),
    ("gpuclaims.gpu.cozystack.io", ()): (*READ, "create", "patch", "delete"),
    ("gpunodes.gpu.cozystack.io", ()): READ,
    ("gpubinders.gpu.cozystack.io", ()): (*READ, "create", "patch"),
    ("gpuclasses/status.gpu.cozystack.io", ()): ("patch",),
    ("gpuclaims/status.gpu.cozystack.io", ()): ("patch",),
    ("gpunodes/status.gpu.cozystack.io", ()): ("patch",),
    ("gpubinders/status.gpu.cozystack.io", ()): ("patch",),
    # What decisions look at.
    ("namespaces", ()): READ,  # before an order is refused for a missing entitlement
    ("nodes", ()): READ,
    ("resourcequotas", ()): READ,  # before a tenant is granted quota
    ("persistentvolumes", ()): FOLLOW,
    ("persistentvolumeclaims", ()): FOLLOW,
    ("storageclasses.storage.k8s.io", ()): FOLLOW,
    ("csinodes.storage.k8s.io", ()): FOLLOW,
    # The pin of a launcher, teardown --release-gates; one that its node refused is deleted.
    ("pods", ()): (*READ, "patch", "delete"),
    ("helmreleases.helm.toolkit.fluxcd.io", ()): READ,  # the same
    ("kubevirts.kubevirt.io", ()): FOLLOW,
    ("virtualmachines.kubevirt.io", ()): FOLLOW,
    ("virtualmachineinstances.kubevirt.io", ()): (*READ, "delete"),
    ("workloads.cozystack.io", ()): (*READ, "create", "patch", "delete"),
    ("workloadmonitors.cozystack.io", ()): (*READ, "create", "patch"),
    ("customresourcedefinitions.apiextensions.k8s.io", ()): ("get",),
    ("events.events.k8s.io", ()): ("create",),
    # policies.keeper, teardown.
    (f"validatingadmissionpolicies.{ADMISSION}", ()): KEEP,
    (f"validatingadmissionpolicybindings.{ADMISSION}", ()): KEEP,
    ("configmaps", ("*",)): ("get",),  # to write a policy with a ConfigMap parameter; no such name
    ("clusterroles.rbac.authorization.k8s.io", ("cozystack-gpu",)): ("get",),
    ("apiservices.apiregistration.k8s.io", (takeover.HOST_API,)): ("get", "patch"),
    ("apiservices.apiregistration.k8s.io", (teardown.API_SERVICE,)): ("delete",),
    (f"mutatingwebhookconfigurations.{ADMISSION}", (teardown.WEBHOOKS,)): ("delete", *FOLLOW),
    (f"validatingwebhookconfigurations.{ADMISSION}", (teardown.WEBHOOKS,)): ("delete",),
    (f"mutatingadmissionpolicies.{ADMISSION}", (teardown.FINALIZING,)): ("delete",),
    (f"mutatingadmissionpolicybindings.{ADMISSION}", (teardown.FINALIZING,)): ("delete",),
}
FACADE: Final[Granted] = {
    ("users", ()): ("impersonate",),
    ("groups", ()): ("impersonate",),
    ("serviceaccounts", ()): ("impersonate",),
    ("*.authentication.k8s.io", ()): ("impersonate",),  # uids, and extra values under any key
    ("apiservices.apiregistration.k8s.io", (takeover.OUR_API,)): ("get",),
}
"""What is granted besides with `hostOptions.mode: facade`."""
REQUESTED: Final[Granted] = {
    ("network-attachment-definitions.k8s.cni.cncf.io", ()): ("get",),
}
"""What is granted besides with `binding: request`."""
LEADER: Final[Granted] = {
    ("leases.coordination.k8s.io", ()): ("create",),
    ("leases.coordination.k8s.io", (keys.LEASE_NAME,)): ("get", "update"),
}
NODE_LEASES: Final[Granted] = {("leases.coordination.k8s.io", ()): ("get",)}
API_SERVERS: Final[Granted] = {
    ("endpointslices.discovery.k8s.io", (endpoints.SERVICE,)): ("get",),
}
SETTINGS: Final[Granted] = {("configmaps", ()): (*READ, "create", "patch", "delete")}
