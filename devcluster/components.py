"""The command lines of the four components: every flag is here, with why where it is not plain."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster import pki, processes

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
START_ORDER = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
STOP_ORDER = (SCHEDULER, CONTROLLER_MANAGER, API_SERVER, ETCD)

ENVIRONMENT: Mapping[str, str] = {"GOGC": "400", "GOMAXPROCS": str(max(8, os.cpu_count() or 1))}
"""What components run with unless the caller's environment says otherwise.

Their heaps are small and two CPUs carry everything: by Go's default, kube-apiserver alone collects
garbage for 0.6 CPU seconds of a start, and for 11 to 20 % of its time in a burst of orders. At 400 a
start costs it 0.15; a plane takes 0.12 GB more.

Go lets a goroutine run for up to 10 ms before another gets its thread, so on two CPUs a short read waits
behind a queue of long writes. With more threads than CPUs the kernel shares them out sooner.
"""

ISSUER = "https://kubernetes.default.svc"

_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
    "statefulset-controller",
    "job-controller",
    "pod-garbage-collector-controller",
    "disruption-controller",
    "validatingadmissionpolicy-status-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-signing-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a plane differs from the usual one."""

    aggregator_routing: bool = False
    """Reach aggregated servers by their EndpointSlices, not by the Service (no ExternalName then)."""
    node_lifecycle: bool = False
    """Run node-lifecycle: nodes then need Leases, or turn unreachable after 50 s."""
    guarded_owners: bool = False
    """An owner reference takes rights of its own, as a hoster may have it. KubeVirt's own are refused for the
    first half minute then: the plugin looks for new kinds each 30 s."""
    audit: bool = False
    """Write every request's metadata to logs/audit.log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where the components listen, all on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """All a command line needs to know of one plane."""

    directory: Path
    ports: Ports
    pki: pki.Authorities
    binaries: Mapping[str, Path]
    options: Options

    def command(self, name: str) -> processes.Command:
        """Return the command of one component by its name."""
        flags = {
            ETCD: _etcd,
            API_SERVER: _api_server,
            CONTROLLER_MANAGER: _controller_manager,
            SCHEDULER: _scheduler,
        }[name](self)
        argv = (str(self.binaries[name]), *(f"--{key}={value}" for key, value in flags.items()))
        env = {**ENVIRONMENT, **os.environ}
        return processes.Command(name=name, argv=argv, log=self.log(name), env=env)

    def log(self, name: str) -> Path:
        """Return where the process `name` writes what it says."""
        return self.directory / "logs" / f"{name}.log"

    def kubeconfig(self, user: str) -> Path:
        """Return where the kubeconfig of `user` lies."""
        return self.directory / "kubeconfigs" / f"{user}.yaml"


def _etcd(site: Site) -> dict[str, str]:
    client = f"http://127.0.0.1:{site.ports.etcd}"
    peer = f"http://127.0.0.1:{site.ports.etcd_peer}"
    return {
        "name": "dev",
        "data-dir": str(site.directory / "etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"dev={peer}",
        # The two below save up to a second of waiting for an election with one voter.
        "heartbeat-interval": "10",
        "election-timeout": "100",
        "unsafe-no-fsync": "true",
        "watch-progress-notify-interval": "5s",
        "quota-backend-bytes": str(4 * 2**30),
        "log-level": "warn",
    }


def _api_server(site: Site) -> dict[str, str]:
    made = site.pki
    serving = made.pair("kube-apiserver")
    flags = {
        "etcd-servers": f"http://127.0.0.1:{site.ports.etcd}",
        "bind-address": "127.0.0.1",
        "secure-port": str(site.ports.api_server),
        "tls-cert-file": str(serving.crt),
        "tls-private-key-file": str(serving.key),
        "client-ca-file": str(made.client_ca.crt),
        "service-cluster-ip-range": "10.96.0.0/16",
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "anonymous-auth": "true",
        "endpoint-reconciler-type": "none",
        "shutdown-delay-duration": "0s",
        "shutdown-watch-termination-grace-period": "1s",
        "service-account-issuer": ISSUER,
        "service-account-key-file": str(made.service_account_public_key),
        "service-account-signing-key-file": str(made.service_account_key),
        "api-audiences": ISSUER,
        "requestheader-client-ca-file": str(made.front_proxy_ca.crt),
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-uid-headers": "X-Remote-Uid",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": str(made.front_proxy_client.crt),
        "proxy-client-key-file": str(made.front_proxy_client.key),
        "enable-aggregator-routing": str(site.options.aggregator_routing).lower(),
        "v": "2",
    }
    if site.options.guarded_owners:
        flags["enable-admission-plugins"] = "OwnerReferencesPermissionEnforcement"
    if site.options.audit:
        flags["audit-policy-file"] = str(site.directory / "audit-policy.yaml")
        flags["audit-log-path"] = str(site.log("audit"))
        flags["audit-log-format"] = "json"
    return flags


def _controller_manager(site: Site) -> dict[str, str]:
    made = site.pki
    controllers = [*_CONTROLLERS]
    if site.options.node_lifecycle:
        controllers.append("node-lifecycle-controller")
    return {
        **_with_login(site, CONTROLLER_MANAGER, site.ports.controller_manager, "kcm-serving"),
        "service-account-private-key-file": str(made.service_account_key),
        "root-ca-file": str(made.serving_ca.crt),
        "use-service-account-credentials": "true",
        "cluster-signing-cert-file": str(made.client_ca.crt),
        "cluster-signing-key-file": str(made.client_ca.key),
        "kube-api-qps": "200",
        "kube-api-burst": "400",
        "controllers": ",".join(controllers),
    }


def _scheduler(site: Site) -> dict[str, str]:
    return {
        **_with_login(site, SCHEDULER, site.ports.scheduler, "sched-serving"),
        # Its default of 50 requests a second would be what every burst measures.
        "kube-api-qps": "1000",
        "kube-api-burst": "2000",
    }


def _with_login(site: Site, name: str, port: int, serving: str) -> dict[str, str]:
    kubeconfig = str(site.kubeconfig(name))
    pair = site.pki.pair(serving)
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "tls-cert-file": str(pair.crt),
        "tls-private-key-file": str(pair.key),
        "leader-elect": "false",
        "v": "2",
    }
