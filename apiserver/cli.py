"""Subcommands serve, teardown and replay: parse, validate, then one call each."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from apiserver import flags, process
from apiserver import replay as _replay
from gpu.config import Config

app = typer.Typer(
    name="cozystack-gpu",
    help="GPU offers, holds and budgets for virtual machines on Kubernetes with KubeVirt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_ENV = "COZYSTACK_GPU_"
_DEFAULTS = flags.Flags()


@app.command()
def serve(  # noqa: PLR0913 -- typer reads one parameter per flag
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar=f"{_ENV}KUBECONFIG", help="Cluster to serve; in-cluster when absent."),
    ] = None,
    bind_address: Annotated[
        str, typer.Option(envvar=f"{_ENV}BIND_ADDRESS", help="Address to listen on.")
    ] = _DEFAULTS.bind_address,
    port: Annotated[
        int, typer.Option(envvar=f"{_ENV}PORT", help="Port to listen on.")
    ] = _DEFAULTS.port,
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(envvar=f"{_ENV}TLS_CERT_FILE", help="Serving certificate; reloaded."),
    ] = None,
    tls_private_key_file: Annotated[
        Path | None, typer.Option(envvar=f"{_ENV}TLS_PRIVATE_KEY_FILE", help="Its key; reloaded.")
    ] = None,
    namespace: Annotated[
        str, typer.Option(envvar=f"{_ENV}NAMESPACE", help="The product's own namespace.")
    ] = _DEFAULTS.namespace,
    service_account: Annotated[
        str,
        typer.Option(envvar=f"{_ENV}SERVICE_ACCOUNT", help="The account policies trust."),
    ] = _DEFAULTS.service_account,
    identity: Annotated[
        str, typer.Option(envvar=f"{_ENV}IDENTITY", help="This replica; host and pid by default.")
    ] = _DEFAULTS.identity,
    enabled: Annotated[
        bool, typer.Option(envvar=f"{_ENV}ENABLED", help="Off: place nothing, still let go.")
    ] = _DEFAULTS.enabled,
    raw_resource_names: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}RAW_RESOURCE_NAMES", help="allowed or denied: raw names of tenants."
        ),
    ] = _DEFAULTS.raw_resource_names,
    policies: Annotated[
        str, typer.Option(envvar=f"{_ENV}POLICIES", help="managed, rendered or off.")
    ] = _DEFAULTS.policies,
    owner_cluster_role: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}OWNER_CLUSTER_ROLE", help="Owner of managed policies; part of the chart."
        ),
    ] = _DEFAULTS.owner_cluster_role,
    kubevirt_namespace: Annotated[
        str,
        typer.Option(envvar=f"{_ENV}KUBEVIRT_NAMESPACE", help="Where KubeVirt's controllers run."),
    ] = _DEFAULTS.kubevirt_namespace,
    admission_callers: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}ADMISSION_CALLERS",
            help="Users, separated by commas, who alone may call webhooks; empty: anybody.",
        ),
    ] = _DEFAULTS.admission_callers,
    usage_record_monitor: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}USAGE_RECORD_MONITOR",
            help="auto, none or anchor: the WorkloadMonitor of usage records.",
        ),
    ] = _DEFAULTS.usage_record_monitor,
    running_guests: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}RUNNING_GUESTS",
            help="restart or keep: guests that run on a node that cannot keep their claims.",
        ),
    ] = _DEFAULTS.running_guests,
    vm_webhooks: Annotated[
        bool,
        typer.Option(
            envvar=f"{_ENV}VM_WEBHOOKS",
            help="The chart registers the webhooks of VMs and launchers.",
        ),
    ] = _DEFAULTS.vm_webhooks,
    raw_placement: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}RAW_PLACEMENT",
            help="binder or scheduler: who places launchers that name a resource directly.",
        ),
    ] = _DEFAULTS.raw_placement,
    binding: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}BINDING",
            help="gate or request: a start that lacks units waits at the gate, or is refused.",
        ),
    ] = _DEFAULTS.binding,
    host_options: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}HOST_OPTIONS",
            help="off or facade: our option sources beside the host's, in the host's group.",
        ),
    ] = _DEFAULTS.host_options,
    host_url: Annotated[
        str,
        typer.Option(envvar=f"{_ENV}HOST_URL", help="The host's API server behind the facade."),
    ] = _DEFAULTS.host_url,
    host_ca_file: Annotated[
        Path | None,
        typer.Option(envvar=f"{_ENV}HOST_CA_FILE", help="Its authorities (PEM); reloaded."),
    ] = None,
    not_ready_grace: Annotated[
        float,
        typer.Option(envvar=f"{_ENV}NOT_READY_GRACE", help="Seconds a node may be not Ready."),
    ] = _DEFAULTS.not_ready_grace,
    degraded_grace: Annotated[
        float,
        typer.Option(envvar=f"{_ENV}DEGRADED_GRACE", help="Seconds a node may lack units."),
    ] = _DEFAULTS.degraded_grace,
    attachment_grace: Annotated[
        float,
        typer.Option(envvar=f"{_ENV}ATTACHMENT_GRACE", help="Seconds a VM's start is waited for."),
    ] = _DEFAULTS.attachment_grace,
    pin_grace: Annotated[
        float,
        typer.Option(
            envvar=f"{_ENV}PIN_GRACE",
            help="Seconds a pinned launcher may stay unscheduled before it is deleted.",
        ),
    ] = _DEFAULTS.pin_grace,
    rejection: Annotated[
        float,
        typer.Option(
            envvar=f"{_ENV}REJECTION",
            help="Seconds a node is skipped for a VM whose launcher it refused.",
        ),
    ] = _DEFAULTS.rejection,
    release_settle: Annotated[
        float,
        typer.Option(
            envvar=f"{_ENV}RELEASE_SETTLE",
            help="Seconds a node must be Ready after a pod went that nobody saw end.",
        ),
    ] = _DEFAULTS.release_settle,
    guard_window: Annotated[
        float, typer.Option(envvar=f"{_ENV}GUARD_WINDOW", help="Seconds losses are summed over.")
    ] = _DEFAULTS.guard_window,
    guard_share: Annotated[
        float,
        typer.Option(envvar=f"{_ENV}GUARD_SHARE", help="Of all sets, let through in a window."),
    ] = _DEFAULTS.guard_share,
    guard_at_least: Annotated[
        int,
        typer.Option(envvar=f"{_ENV}GUARD_AT_LEAST", help="Sets let through whatever the share."),
    ] = _DEFAULTS.guard_at_least,
    lease_duration: Annotated[
        float, typer.Option(envvar=f"{_ENV}LEASE_DURATION", help="Seconds.")
    ] = _DEFAULTS.lease_duration,
    renew_deadline: Annotated[
        float, typer.Option(envvar=f"{_ENV}RENEW_DEADLINE", help="Seconds.")
    ] = _DEFAULTS.renew_deadline,
    retry_period: Annotated[
        float, typer.Option(envvar=f"{_ENV}RETRY_PERIOD", help="Seconds.")
    ] = _DEFAULTS.retry_period,
    fence_wait: Annotated[
        float,
        typer.Option(envvar=f"{_ENV}FENCE_WAIT", help="Seconds between a new term and placing."),
    ] = _DEFAULTS.fence_wait,
    resync: Annotated[
        float, typer.Option(envvar=f"{_ENV}RESYNC", help="Seconds between passes without a cause.")
    ] = _DEFAULTS.resync,
    canary_interval: Annotated[
        float,
        typer.Option(
            envvar=f"{_ENV}CANARY_INTERVAL",
            help="Seconds between two proofs that the API servers use the current settings.",
        ),
    ] = _DEFAULTS.canary_interval,
    shutdown_delay: Annotated[
        float,
        typer.Option(
            envvar=f"{_ENV}SHUTDOWN_DELAY", help="Seconds of red readiness before closing."
        ),
    ] = _DEFAULTS.shutdown_delay,
    http2: Annotated[
        bool,
        typer.Option(envvar=f"{_ENV}HTTP2", help="Serve HTTP/2 too, to whoever offers it."),
    ] = _DEFAULTS.http2,
    log_format: Annotated[
        str, typer.Option(envvar=f"{_ENV}LOG_FORMAT", help="json or console.")
    ] = _DEFAULTS.log_format,
    replay_dir: Annotated[
        Path | None,
        typer.Option(
            envvar=f"{_ENV}REPLAY_DIR", help="Where passes are saved; the newest 20 stay."
        ),
    ] = None,
    save_replays: Annotated[
        str,
        typer.Option(
            envvar=f"{_ENV}SAVE_REPLAYS", help="asked (by SIGUSR1, a refused plan), next or never."
        ),
    ] = _DEFAULTS.save_replays,
) -> None:
    """Run the aggregated API, the webhooks, the policy keeper and, while leading, the binder."""
    typed = flags.Flags(
        kubeconfig=kubeconfig,
        bind_address=bind_address,
        port=port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        namespace=namespace,
        service_account=service_account,
        identity=identity,
        enabled=enabled,
        raw_resource_names=raw_resource_names,
        policies=policies,
        owner_cluster_role=owner_cluster_role,
        kubevirt_namespace=kubevirt_namespace,
        admission_callers=admission_callers,
        usage_record_monitor=usage_record_monitor,
        running_guests=running_guests,
        vm_webhooks=vm_webhooks,
        raw_placement=raw_placement,
        binding=binding,
        host_options=host_options,
        host_url=host_url,
        host_ca_file=host_ca_file,
        not_ready_grace=not_ready_grace,
        degraded_grace=degraded_grace,
        attachment_grace=attachment_grace,
        pin_grace=pin_grace,
        rejection=rejection,
        release_settle=release_settle,
        guard_window=guard_window,
        guard_share=guard_share,
        guard_at_least=guard_at_least,
        lease_duration=lease_duration,
        renew_deadline=renew_deadline,
        retry_period=retry_period,
        fence_wait=fence_wait,
        resync=resync,
        canary_interval=canary_interval,
        shutdown_delay=shutdown_delay,
        http2=http2,
        log_format=log_format,
        replay_dir=replay_dir,
        save_replays=save_replays,
    )
    try:
        judged = flags.judge(typed)
    except flags.FlagsError as error:
        for problem in error.problems:
            typer.secho(problem, fg=typer.colors.RED, err=True)
        raise typer.Exit(2) from None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        raise typer.Exit(runner.run(process.serve(judged)))


@app.command()
def teardown(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar=f"{_ENV}KUBECONFIG", help="Cluster to clear; in-cluster when absent."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(envvar=f"{_ENV}NAMESPACE", help="The product's own namespace.")
    ] = _DEFAULTS.namespace,
    service_account: Annotated[
        str, typer.Option(envvar=f"{_ENV}SERVICE_ACCOUNT", help="The account policies trust.")
    ] = _DEFAULTS.service_account,
    owner_cluster_role: Annotated[
        str, typer.Option(envvar=f"{_ENV}OWNER_CLUSTER_ROLE", help="Part of the chart.")
    ] = _DEFAULTS.owner_cluster_role,
    release_gates: Annotated[
        bool, typer.Option("--release-gates", help="Ungate the pods that wait at our gate.")
    ] = False,
) -> None:
    """Take the product out of everybody's way before an uninstall; holds and CRDs are kept."""
    config = Config(
        namespace=namespace,
        service_account=service_account,
        owner_cluster_role=owner_cluster_role,
    )
    clean = asyncio.run(process.teardown(kubeconfig, config, release_gates=release_gates))
    raise typer.Exit(0 if clean else 1)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A saved pass.", show_default=False)],
) -> None:
    """Decide a saved pass again without a cluster: 0 the same, 1 other decisions, 2 no such file."""
    raise typer.Exit(_replay.replay(file, out=sys.stdout, err=sys.stderr))


def main() -> None:
    """Run the command line."""
    app(prog_name="cozystack-gpu" if sys.argv[0].endswith("__main__.py") else None)
