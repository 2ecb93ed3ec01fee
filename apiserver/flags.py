"""Flags and environment to a frozen ServeConfig; reports every problem at once."""

import os
import re
import socket
import tempfile
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from gpu import settings
from gpu.config import (
    Binding,
    Config,
    Grace,
    Guard,
    Pace,
    PolicyMode,
    RawPlacement,
    RunningGuests,
    UsageRecordMonitor,
)

W = TypeVar("W", bound=StrEnum)


_CONFIG = Config()
_PACE = Pace()
_GRACE = Grace()
_GUARD = Guard()
_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class FlagsError(Exception):
    """What is wrong with the flags, every problem on a line of its own."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    CONSOLE = "console"


class HostOptions(StrEnum):
    """How our option sources are seen beside the host's."""

    OFF = "off"
    """In our own group alone."""
    FACADE = "facade"
    """In the host's group too, whose every request then passes through us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostApi:
    """The host's API server behind the facade: its URL, and whom to believe about it (PEM)."""

    url: str
    authorities: Path


class SaveReplays(StrEnum):
    """Which passes are saved in files."""

    ASKED = "asked"
    """Those whose plan was refused, and the next one after SIGUSR1."""
    NEXT = "next"
    """As asked, and the first one."""
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What was typed, not judged yet."""

    kubeconfig: Path | None = None
    bind_address: str = "0.0.0.0"  # noqa: S104 -- kube-apiserver comes from another node
    port: int = 8443
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    namespace: str = "cozy-system"
    service_account: str = "cozystack-gpu"
    identity: str = ""
    enabled: bool = True
    raw_resource_names: str = settings.RawNames.DENIED.value
    policies: str = PolicyMode.MANAGED.value
    owner_cluster_role: str = "cozystack-gpu"
    kubevirt_namespace: str = "cozy-kubevirt"
    admission_callers: str = ""
    usage_record_monitor: str = UsageRecordMonitor.AUTO.value
    running_guests: str = RunningGuests.RESTART.value
    vm_webhooks: bool = _CONFIG.vm_webhooks
    raw_placement: str = _CONFIG.raw_placement.value
    binding: str = _CONFIG.binding.value
    not_ready_grace: float = _GRACE.not_ready
    degraded_grace: float = _GRACE.degraded
    attachment_grace: float = _GRACE.attachment
    pin_grace: float = _GRACE.pin
    rejection: float = _GRACE.rejection
    release_settle: float = _GRACE.release_settle
    guard_window: float = _GUARD.window
    guard_share: float = _GUARD.share
    guard_at_least: int = _GUARD.at_least
    lease_duration: float = _PACE.lease_duration
    renew_deadline: float = _PACE.renew_deadline
    retry_period: float = _PACE.retry_period
    fence_wait: float = _PACE.fence_wait
    resync: float = _PACE.resync
    canary_interval: float = _PACE.canary
    shutdown_delay: float = 5.0
    http2: bool = True
    log_format: str = LogFormat.JSON.value
    host_options: str = HostOptions.OFF.value
    host_url: str = "https://cozystack-api.cozy-system.svc"
    host_ca_file: Path | None = None
    replay_dir: Path | None = None
    save_replays: str = SaveReplays.ASKED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Everything `serve` needs, judged."""

    kubeconfig: Path | None
    bind_address: str
    port: int
    tls_cert_file: Path
    tls_private_key_file: Path
    shutdown_delay: float
    """Seconds between red readiness and the listener's close: endpoints need time to notice."""
    log_format: LogFormat
    http2: bool = True
    """HTTP/2 is served to whoever offers it; else HTTP/1.1 alone."""
    replay_dir: Path | None = None
    """Where passes are saved; None: nowhere."""
    save_first: bool = False
    """The first pass is saved."""
    admission_callers: frozenset[str] = frozenset()
    """Who alone may call webhooks; empty: whoever reaches the port."""
    host: HostApi | None = None
    """The host behind the facade; None: there is no facade."""
    config: Config = field(default_factory=Config)


def judge(flags: Flags) -> ServeConfig:
    """Return the configuration. Raises FlagsError with all that is wrong, not the first thing."""
    problems = [*_file_problems(flags), *_number_problems(flags), *_name_problems(flags)]
    raw_names = _word(settings.RawNames, "--raw-resource-names", flags.raw_resource_names, problems)
    policies = _word(PolicyMode, "--policies", flags.policies, problems)
    monitor = _word(
        UsageRecordMonitor, "--usage-record-monitor", flags.usage_record_monitor, problems
    )
    guests = _word(RunningGuests, "--running-guests", flags.running_guests, problems)
    raw_placement = _word(RawPlacement, "--raw-placement", flags.raw_placement, problems)
    binding = _word(Binding, "--binding", flags.binding, problems)
    log_format = _word(LogFormat, "--log-format", flags.log_format, problems)
    host_options = _word(HostOptions, "--host-options", flags.host_options, problems)
    host = _host(flags, problems) if host_options is HostOptions.FACADE else None
    saves = _word(SaveReplays, "--save-replays", flags.save_replays, problems)
    if problems or not (flags.tls_cert_file and flags.tls_private_key_file):
        raise FlagsError(problems)
    if raw_names is None or policies is None or monitor is None or log_format is None:
        raise FlagsError(problems)
    if guests is None or raw_placement is None or binding is None:
        raise FlagsError(problems)
    pace = Pace(
        lease_duration=flags.lease_duration,
        renew_deadline=flags.renew_deadline,
        retry_period=flags.retry_period,
        fence_wait=flags.fence_wait,
        resync=flags.resync,
        canary=flags.canary_interval,
        write_timeout=min(_PACE.write_timeout, flags.renew_deadline / 2),
    )
    return ServeConfig(
        kubeconfig=flags.kubeconfig,
        bind_address=flags.bind_address,
        port=flags.port,
        tls_cert_file=flags.tls_cert_file,
        tls_private_key_file=flags.tls_private_key_file,
        shutdown_delay=flags.shutdown_delay,
        http2=flags.http2,
        log_format=log_format,
        replay_dir=None if saves is SaveReplays.NEVER else _replay_dir(flags),
        save_first=saves is SaveReplays.NEXT,
        admission_callers=frozenset(
            name for part in flags.admission_callers.split(",") if (name := part.strip())
        ),
        host=host,
        config=Config(
            enabled=flags.enabled,
            namespace=flags.namespace,
            service_account=flags.service_account,
            identity=flags.identity or f"{socket.gethostname()}-{os.getpid()}",
            raw_names=raw_names,
            policies=policies,
            owner_cluster_role=flags.owner_cluster_role,
            kubevirt_namespace=flags.kubevirt_namespace,
            usage_record_monitor=monitor,
            running_guests=guests,
            vm_webhooks=flags.vm_webhooks,
            raw_placement=raw_placement,
            binding=binding,
            grace=Grace(
                not_ready=flags.not_ready_grace,
                degraded=flags.degraded_grace,
                attachment=flags.attachment_grace,
                pin=flags.pin_grace,
                rejection=flags.rejection,
                release_settle=flags.release_settle,
            ),
            guard=Guard(
                window=flags.guard_window,
                share=flags.guard_share,
                at_least=flags.guard_at_least,
            ),
            pace=pace,
        ),
    )


def _replay_dir(flags: Flags) -> Path:
    return flags.replay_dir or Path(tempfile.gettempdir()) / "cozystack-gpu-replays"


def _host(flags: Flags, problems: list[str]) -> HostApi | None:
    """Judge what the facade needs: a way to the host that can be believed."""
    if not flags.host_url.startswith("https://"):
        problems.append(f"--host-url: {flags.host_url!r} does not begin with https://")
    if flags.host_ca_file is None:
        problems.append("--host-ca-file is missing: the facade must know whom to believe")
        return None
    if not flags.host_ca_file.is_file():
        problems.append(f"--host-ca-file: there is no file {flags.host_ca_file}")
    return HostApi(url=flags.host_url, authorities=flags.host_ca_file)


def _word(kind: type[W], flag: str, word: str, problems: list[str]) -> W | None:
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(item.value for item in kind)
        problems.append(f"{flag}: {word!r} is not one of {known}")
        return None


def _file_problems(flags: Flags) -> list[str]:
    problems = []
    for flag, path, needed in (
        ("--tls-cert-file", flags.tls_cert_file, True),
        ("--tls-private-key-file", flags.tls_private_key_file, True),
        ("--kubeconfig", flags.kubeconfig, False),
    ):
        if path is None and needed:
            problems.append(f"{flag} is missing: kube-apiserver calls over TLS only")
        elif path is not None and not path.is_file():
            problems.append(f"{flag}: there is no file {path}")
    return problems


def _name_problems(flags: Flags) -> list[str]:
    if _NAMESPACE.fullmatch(flags.kubevirt_namespace):
        return []
    return [f"--kubevirt-namespace: {flags.kubevirt_namespace!r} is not the name of a namespace"]


def _number_problems(flags: Flags) -> list[str]:
    problems = []
    if not 1 <= flags.port <= 65535:  # noqa: PLR2004 -- the range of a TCP port
        problems.append(f"--port: {flags.port} is not between 1 and 65535")
    if not flags.lease_duration > flags.renew_deadline > flags.retry_period > 0:
        problems.append(
            "--lease-duration, --renew-deadline, --retry-period must fall in that order and be "
            f"positive; they are {flags.lease_duration:g}, {flags.renew_deadline:g} and "
            f"{flags.retry_period:g} seconds"
        )
    for flag, value in (
        ("--fence-wait", flags.fence_wait),
        ("--shutdown-delay", flags.shutdown_delay),
        ("--not-ready-grace", flags.not_ready_grace),
        ("--degraded-grace", flags.degraded_grace),
        ("--attachment-grace", flags.attachment_grace),
        ("--pin-grace", flags.pin_grace),
        ("--rejection", flags.rejection),
        ("--release-settle", flags.release_settle),
        ("--guard-window", flags.guard_window),
    ):
        if value < 0:
            problems.append(f"{flag}: {value:g} seconds is negative")
    for flag, value in (
        ("--resync", flags.resync),
        ("--canary-interval", flags.canary_interval),
    ):
        if value <= 0:
            problems.append(f"{flag}: {value:g} seconds is not positive")
    if not 0 <= flags.guard_share <= 1:
        problems.append(f"--guard-share: {flags.guard_share:g} is not between 0 and 1")
    if flags.guard_at_least < 0:
        problems.append(f"--guard-at-least: {flags.guard_at_least} sets is negative")
    return problems
