"""What gauges say of the stores, and what is logged once."""

from structlog.testing import capture_logs

from apiserver import metrics
from apiserver.observing import Observing
from gpu.binder.report import Failed, PassReport, Spent
from gpu.cluster.caches import Caches
from gpu.cluster.recorder import Recorder, Reporter
from gpu.config import Config
from gpu.objects.kinds import CONFIG_MAPS, GPU_CLAIMS, GPU_CLASSES, HELM_RELEASES, PODS
from gpu.ports import Outcome
from policies.asking import Report as CanaryReport
from policies.canary import Finding, Verdict
from policies.standing import Reason, Standing
from tests.builders import START, raw_release
from tests.fakes.clock import FakeClock
from tests.starting import raw_launcher


def value(made, name, **labels):
    return made.registry.get_sample_value(name, labels)


def a_claim(name, count, status):
    return {
        "metadata": {"name": name, "namespace": "tenant-a", "resourceVersion": "5"},
        "spec": {"className": "h100", "count": count},
        "status": status,
    }


def test_gauges_follow_the_stores():
    made = metrics.create()
    caches = Caches(None)
    caches[GPU_CLASSES].put(
        {
            "metadata": {"name": "h100", "resourceVersion": "5"},
            "spec": {
                "mode": "passthrough",
                "source": {"devicePlugin": {"resourceName": "nvidia.com/x"}},
            },
            "status": {"held": 2, "free": 6},
        }
    )
    caches[GPU_CLAIMS].put(a_claim("one", 2, {"phase": "Bound", "nodeName": "n"}))
    caches[GPU_CLAIMS].put(a_claim("two", 3, {"phase": "Lost"}))
    caches[GPU_CLAIMS].put(a_claim("three", "many", {}))
    observing = Observing(made, "me")
    observing._count(caches, START, Config())
    assert value(made, "cozystack_gpu_claims", phase="Bound") == 1
    assert value(made, "cozystack_gpu_claims", phase="Pending") == 0
    assert [
        value(made, "cozystack_gpu_units", **{"class": "h100", "state": state})
        for state in ("held", "free", "lost")
    ] == [2, 6, 3]
    assert value(made, "cozystack_gpu_malformed_objects", kind="GPUClaim") == 1
    assert value(made, "cozystack_gpu_settings_valid") == 0
    caches[CONFIG_MAPS].put(
        {
            "metadata": {
                "name": "cozystack-gpu-settings",
                "namespace": "cozy-system",
                "resourceVersion": "6",
            },
            "data": {"resourceNames": "", "rawResourceNames": "denied"},
        }
    )
    observing._count(caches, START, Config())
    assert value(made, "cozystack_gpu_settings_valid") == 1


def test_a_gauge_counts_the_gpu_quotas_that_cannot_be_read():
    made = metrics.create()
    caches = Caches(None)
    observing = Observing(made, "me")
    observing._count(caches, START, Config())
    assert value(made, "cozystack_gpu_unreadable_quotas") == 0
    bad = {"gpu.cozystack.io/h100": "x", "gpu.cozystack.io/total": 1.5, "example.com/nic": "y"}
    for tenant, quotas in (("tenant-a", bad), ("tenant-b", {"gpu.cozystack.io/h100": 4})):
        caches[HELM_RELEASES].put(raw_release(tenant, quotas))
    observing._count(caches, START, Config())
    assert value(made, "cozystack_gpu_unreadable_quotas") == 2


def test_gauges_say_whether_holds_are_enforced_and_how_many_pods_wait_for_them():
    made = metrics.create()
    caches = Caches(None)
    observing = Observing(made, "me")
    for name, more in (("waits", {}), ("ended", {"phase": "Failed"}), ("through", {"gates": []})):
        caches[PODS].put(raw_launcher(name, **more))
    found = {}
    for state, config in (
        ("gone", Config()),
        ("unwanted", Config(vm_webhooks=False)),
        ("off", Config(enabled=False)),
    ):
        observing._count(caches, START, config)
        found[state] = value(made, "cozystack_gpu_holds_not_enforced")
        assert value(made, "cozystack_gpu_pods_at_gate") == 1
    assert found == {"gone": 1, "unwanted": 0, "off": 0}


def test_a_failure_that_stays_is_logged_once_and_counted_each_time():
    made = metrics.create()
    observing = Observing(made, "me")
    failed = Failed(
        change="Place",
        object="GPUClaim tenant-a/one",
        set_id="tenant-a/one",
        outcome=Outcome.REFUSED,
        words="no",
    )
    report = PassReport(phases={"orders": Spent(deciding=0.1)}, failed=(failed,))
    with capture_logs() as logs:
        observing.passed(report)
        observing.passed(report)
    assert [(line["event"], line["object"]) for line in logs] == [
        ("write failed", "GPUClaim tenant-a/one")
    ]
    assert value(made, "cozystack_gpu_write_refusals_total") == 2
    assert value(made, "cozystack_gpu_pass_duration_seconds_count", phase="orders") == 2


async def test_the_policies_standing_is_a_metric_before_it_is_told():
    made = metrics.create()
    seen = []

    async def report(found):
        (sample,) = next(iter(made.policies_current.collect())).samples
        seen.append((found.reason, sample.value))

    told = Observing(made, "me").told(report)
    await told(Standing(reason=Reason.CURRENT, message=""))
    await told(Standing(reason=Reason.WRITE_FAILED, message=""))
    assert seen == [(Reason.CURRENT, 1), (Reason.WRITE_FAILED, 0)]


def test_written_settings_and_held_back_placements_are_told_with_their_reason():
    made = metrics.create()
    observing = Observing(made, "me")
    with capture_logs() as logs:
        observing.passed(PassReport(settings_healed="it does not exist"))
        observing.passed(PassReport(held_back="tenant-a/odd cannot be read"))
        observing.passed(PassReport(held_back="tenant-a/odd cannot be read"))
        observing.passed(PassReport())
    assert [(line["event"], line["why"]) for line in logs] == [
        ("settings written", "it does not exist"),
        ("nothing is placed", "tenant-a/odd cannot be read"),
        ("placing again", ""),
    ]
    assert value(made, "cozystack_gpu_settings_writes_total") == 1


def test_what_became_of_usage_records_is_counted():
    made = metrics.create()
    observing = Observing(made, "me")
    written = {"WriteRecord": 3, "DropRecord": 1, "Place": 3}
    with capture_logs() as logs:
        observing.passed(PassReport(written=written, records_deleted=2, sets_held_back=4))
        observing.passed(PassReport(sets_held_back=4))
    assert [
        value(made, "cozystack_gpu_usage_records_total", event=event)
        for event in ("written", "dropped", "deleted_by_others")
    ] == [3, 1, 2]
    assert value(made, "cozystack_gpu_sets_held_back") == 4
    assert [(line["event"], line["number"]) for line in logs] == [
        ("usage records were deleted by others", 2)
    ]


def test_a_refused_plan_is_counted_each_time_and_logged_when_it_is_new():
    made = metrics.create()
    observing = Observing(made, "me")
    with capture_logs() as logs:
        for problem in ("", "phase orders: x", "phase orders: x", ""):
            observing.passed(PassReport(plan_problem=problem))
        observing.passed(PassReport(saved="there/pass.json"))
        observing.passed(PassReport(not_saved="disk full"))
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("error", "plan refused, nothing is placed"),
        ("info", "plans are well again"),
        ("info", "pass saved"),
        ("warning", "pass not saved"),
    ]
    assert (logs[0]["why"], logs[2]["path"], logs[3]["error"]) == (
        "phase orders: x",
        "there/pass.json",
        "disk full",
    )
    assert value(made, "cozystack_gpu_plans_refused_total") == 2


def test_events_are_counted_by_what_became_of_them():
    made = metrics.create()
    observing = Observing(made, "me")
    recorder = Recorder(None, Reporter("binder", "me"), clock=FakeClock())
    for recorder.written, recorder.dropped in ((3, 1), (5, 1)):
        observing._count_events(recorder)
    assert value(made, "cozystack_gpu_events_total", result="written") == 5
    assert value(made, "cozystack_gpu_events_total", result="dropped") == 1


def test_each_api_server_shows_what_it_proved_and_none_that_is_gone():
    made = metrics.create()
    observing = Observing(made, "me")
    proved = Verdict(Finding.PROVED)
    observing.heard(CanaryReport(settings="s", verdicts={"a:1": proved, "b:1": proved}))
    name = "cozystack_gpu_policy_canary_proved"
    last = "cozystack_gpu_policy_canary_last_proof_timestamp_seconds"
    assert [value(made, name, server=server) for server in ("a:1", "b:1")] == [1, 1]
    since = value(made, last)
    assert since > 0
    stale = Verdict(Finding.STALE, "reads an older version")
    observing.heard(CanaryReport(settings="s", verdicts={"b:1": stale}))
    assert [value(made, name, server=server) for server in ("a:1", "b:1")] == [None, 0]
    assert value(made, last) == since
    count = "cozystack_gpu_policy_canary_answers_total"
    assert [value(made, count, finding=word) for word in ("proved", "settings_stale")] == [2, 1]
    observing.leading(None)
    assert value(made, name, server="b:1") is None
