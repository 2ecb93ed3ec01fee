"""Wiring: parts of one process that are handed to each other here and nowhere else."""

from types import SimpleNamespace

from apiserver import flags, metrics, wiring
from apiserver.observing import Observing
from tests.fakes.cluster import FakeCluster


def settings_of(tmp_path):
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("x")
    typed = flags.Flags(
        tls_cert_file=tmp_path / "tls.crt", tls_private_key_file=tmp_path / "tls.key"
    )
    return flags.judge(typed)


def test_events_give_way_to_the_starts_that_the_leader_of_this_process_answers(tmp_path):
    made, cluster = metrics.create(), FakeCluster()
    process = wiring.build(
        settings_of(tmp_path),
        made,
        Observing(made, "me"),
        SimpleNamespace(),
        cluster,
        cluster,
        None,
    )
    waits = process.recorder._waits
    assert not waits()
    process.binder.awaited.passes = SimpleNamespace(is_awaited=lambda: True)
    assert waits()
