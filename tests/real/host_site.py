"""The host's API server on a plane: the stand-in that is built here, or the host's own (real_host_story.py)."""

import base64
import contextlib
import os
from collections.abc import AsyncIterator

from apiserver import takeover
from devcluster import chart, probes, processes
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites

REAL = "COZYSTACK_API"
"""The variable by which somebody names a binary of the host's own server."""
TOLD_OF = "FACADE_HOST"
"""The variable by which the story is told to run that one."""
NAME = "cozystack-api"
SERVICES = Kind("", "v1", "services", "Service")
ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount")
SECRETS = Kind("", "v1", "secrets", "Secret")
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole")
CLUSTER_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"
)
BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CRDS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
APPLICATIONS = Kind("cozystack.io", "v1alpha1", "applicationdefinitions", "ApplicationDefinition")
SHOWN = {"internal.cozystack.io/tenantresource": "true"}
"""The label by which the host shows a Secret as a TenantSecret."""
_RBAC = "rbac.authorization.k8s.io"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@contextlib.asynccontextmanager
async def running(site: sites.Site) -> AsyncIterator[str]:
    """Run the host with its APIService of `core`; the address at which it is reached."""
    port = site.cp.reserve_port()
    await _settle(site)
    login = await site.cp.service_account_kubeconfig(chart.NAMESPACE, NAME)
    service = f"{NAME}.{chart.NAMESPACE}.svc"
    pair = site.cp.pki.sign_server("host", names=[service], now=sites.now())
    url = f"https://localhost:{port}"
    command = processes.Command(
        name=NAME,
        argv=(
            os.environ.get(TOLD_OF) or str(site.cp.site.binaries["host-api"]),
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={pair.crt}",
            f"--tls-private-key-file={pair.key}",
            *(f"--{part}kubeconfig={login}" for part in ("", "authentication-", "authorization-")),
        ),
        log=site.cp.site.log(NAME),
        env={**os.environ, "KUBECONFIG": str(login)},
    )
    await site.cp.run(command, probes.answers_ok(f"{url}/readyz", site.cp.pki.ext_ca.crt))
    try:
        await named(site, port)
        await chart.available(site.admin, takeover.HOST_API)
        yield url
    finally:
        await site.cp.stop_process(NAME)


async def _settle(site: sites.Site) -> None:
    """Give the host what it reads: its account and rights, and one definition of an application."""
    admin, meta = site.admin, {"name": NAME, "namespace": chart.NAMESPACE}
    await admin.create(ACCOUNTS, {"metadata": meta})
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
    ]
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": NAME}, "rules": rules})
    who = [{"kind": "ServiceAccount", **meta}]
    for role in (NAME, "system:auth-delegator"):
        ref = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
        body = {"metadata": {"name": f"host-{role}"}, "roleRef": ref, "subjects": who}
        await admin.create(CLUSTER_BINDINGS, body)
    ref = {"apiGroup": _RBAC, "kind": "Role", "name": "extension-apiserver-authentication-reader"}
    at = {"name": NAME, "namespace": "kube-system"}
    await admin.create(BINDINGS, {"metadata": at, "roleRef": ref, "subjects": who})
    await admin.create(CRDS, _applications())
    await sites.until(lambda: _defined(site), sites.LATE, "an application defined")


async def _defined(site: sites.Site) -> bool:
    application = {"kind": "Bucket", "singular": "bucket", "plural": "buckets"}
    chart_ref = {"kind": "HelmChart", "name": "bucket", "namespace": chart.NAMESPACE}
    release = {"prefix": "bucket-", "labels": {}, "chartRef": chart_ref}
    spec = {"application": {**application, "openAPISchema": "{}"}, "release": release}
    with contextlib.suppress(errors.AlreadyExists):
        await site.admin.create(APPLICATIONS, {"metadata": {"name": "bucket"}, "spec": spec})
    return True


def _applications() -> dict[str, object]:
    names = {"plural": APPLICATIONS.plural, "singular": "applicationdefinition"}
    version = {
        "name": APPLICATIONS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _ANYTHING},
    }
    return {
        "metadata": {"name": f"{APPLICATIONS.plural}.{APPLICATIONS.group}"},
        "spec": {
            "group": APPLICATIONS.group,
            "scope": "Cluster",
            "names": {**names, "kind": "ApplicationDefinition"},
            "versions": [version],
        },
    }


async def named(site: sites.Site, port: int) -> dict:
    """Make the host's Service and APIService; return the latter as stored."""
    meta = {"name": NAME, "namespace": chart.NAMESPACE}
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    await site.admin.create(SERVICES, {"metadata": meta, "spec": spec})
    body = {
        "metadata": {
            "name": takeover.HOST_API,
            "annotations": {"cert-manager.io/inject-ca-from": f"{chart.NAMESPACE}/{NAME}"},
        },
        "spec": {
            "group": "core.cozystack.io",
            "version": "v1alpha1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "caBundle": base64.b64encode(site.cp.pki.ext_ca.crt.read_bytes()).decode(),
            "service": {**meta, "port": port},
        },
    }
    return await site.admin.create(kinds.API_SERVICES, body)
