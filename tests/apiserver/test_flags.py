"""Flags: everything wrong is told at once, and defaults are those of Config."""

import pytest

from apiserver import flags
from apiserver.flags import Flags, FlagsError
from gpu.config import (
    Binding,
    Config,
    Grace,
    Guard,
    Pace,
    PolicyMode,
    RunningGuests,
    UsageRecordMonitor,
)
from gpu.settings import RawNames


@pytest.fixture
def pair(tmp_path):
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("x")
    return {
        "tls_cert_file": tmp_path / "tls.crt",
        "tls_private_key_file": tmp_path / "tls.key",
    }


def test_defaults_are_those_of_the_configuration(pair):
    judged = flags.judge(Flags(**pair, identity="me"))
    assert judged.config == Config(identity="me")
    assert (judged.port, judged.kubeconfig) == (8443, None)


def test_what_is_typed_is_what_is_run(pair):
    typed = Flags(
        **pair,
        identity="me",
        enabled=False,
        raw_resource_names="allowed",
        policies="off",
        namespace="elsewhere",
        kubevirt_namespace="virtual",
        usage_record_monitor="anchor",
        running_guests="keep",
        binding="request",
        not_ready_grace=60,
        degraded_grace=90,
        attachment_grace=20,
        pin_grace=25,
        rejection=300,
        release_settle=240,
        resync=7,
        canary_interval=9,
        guard_window=120,
        guard_share=0.5,
        guard_at_least=3,
        lease_duration=4,
        renew_deadline=3,
        retry_period=0.5,
        fence_wait=0.5,
    )
    assert flags.judge(typed).config == Config(
        identity="me",
        enabled=False,
        raw_names=RawNames.ALLOWED,
        policies=PolicyMode.OFF,
        namespace="elsewhere",
        kubevirt_namespace="virtual",
        usage_record_monitor=UsageRecordMonitor.ANCHOR,
        running_guests=RunningGuests.KEEP,
        binding=Binding.REQUEST,
        grace=Grace(
            not_ready=60, degraded=90, attachment=20, pin=25, rejection=300, release_settle=240
        ),
        guard=Guard(window=120, share=0.5, at_least=3),
        pace=Pace(
            lease_duration=4,
            renew_deadline=3,
            retry_period=0.5,
            fence_wait=0.5,
            write_timeout=1.5,
            resync=7,
            canary=9,
        ),
    )


def test_every_problem_is_told_at_once(pair, tmp_path):
    wrong = Flags(
        tls_cert_file=pair["tls_cert_file"],
        tls_private_key_file=tmp_path / "missing.key",
        kubeconfig=tmp_path / "nowhere",
        port=0,
        raw_resource_names="perhaps",
        policies="some",
        kubevirt_namespace="cozy:kubevirt",
        usage_record_monitor="always",
        running_guests="perhaps",
        binding="both",
        degraded_grace=-1,
        release_settle=-1,
        resync=0,
        canary_interval=0,
        guard_share=2,
        guard_at_least=-1,
        log_format="xml",
        lease_duration=2,
        renew_deadline=3,
        shutdown_delay=-1,
    )
    with pytest.raises(FlagsError) as caught:
        flags.judge(wrong)
    begins = [problem.split(":")[0].split(" ")[0].rstrip(",") for problem in caught.value.problems]
    assert begins == [
        "--tls-private-key-file",
        "--kubeconfig",
        "--port",
        "--lease-duration",
        "--shutdown-delay",
        "--degraded-grace",
        "--release-settle",
        "--resync",
        "--canary-interval",
        "--guard-share",
        "--guard-at-least",
        "--kubevirt-namespace",
        "--raw-resource-names",
        "--policies",
        "--usage-record-monitor",
        "--running-guests",
        "--binding",
        "--log-format",
    ]


def test_callers_of_webhooks_are_named_between_commas(pair):
    judged = flags.judge(Flags(**pair, admission_callers="apiserver, system:x:y,,"))
    assert judged.admission_callers == {"apiserver", "system:x:y"}
    assert flags.judge(Flags(**pair)).admission_callers == frozenset()


def test_without_a_certificate_it_says_which_flag_is_missing():
    with pytest.raises(FlagsError, match="--tls-cert-file is missing"):
        flags.judge(Flags())


def test_two_processes_of_one_host_have_identities_of_their_own(pair):
    own = flags.judge(Flags(**pair)).config.identity
    assert own.rpartition("-")[2].isdigit()


def test_passes_are_saved_when_asked_for_unless_never(pair, tmp_path):
    def judged(**more):
        found = flags.judge(Flags(**pair, **more))
        return found.replay_dir, found.save_first

    default, is_first = judged()
    assert (default.name, is_first) == ("cozystack-gpu-replays", False)
    assert judged(replay_dir=tmp_path, save_replays="next") == (tmp_path, True)
    assert judged(replay_dir=tmp_path, save_replays="never") == (None, False)
    with pytest.raises(FlagsError, match="--save-replays: 'often' is not one of asked, next"):
        judged(save_replays="often")
