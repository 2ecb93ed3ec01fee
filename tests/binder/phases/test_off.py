"""With the feature off: GPUBinder says how many pods wait at the gate, and what lets them through."""

from gpu.binder.changes import ReportBinder
from gpu.binder.phases import off
from gpu.config import Config
from tests.binder import raws
from tests.binder.scenes import a_scene, only
from tests.starting import raw_launcher

OFF = Config(enabled=False)
BINDER = {"metadata": {"name": "binder"}, "status": {"term": 1}}


def told(*pods: raws.Raw, config: Config = OFF) -> list[ReportBinder]:
    return list(off.changes_of(a_scene(binders=[BINDER], pods=list(pods), config=config)))


def test_while_it_is_on_nothing_is_said():
    assert told(raw_launcher(), config=Config()) == []


def test_pods_at_the_gate_are_counted_with_what_lets_them_through():
    found = [
        raw_launcher("one"),
        raw_launcher("two"),
        raw_launcher("ended", phase="Failed"),
        raw_launcher("through", gates=[]),
        raw_launcher("of another", gates=["example.com/gate"]),
    ]
    (condition,) = only(told(*found)).conditions
    assert (condition.type, condition.status, condition.reason) == (
        "Enabled",
        "False",
        "SwitchedOff",
    )
    assert "2 pods wait at the gate" in condition.message
    assert "cozystack-gpu teardown --release-gates" in condition.message


def test_one_pod_is_told_in_the_singular_and_none_not_at_all():
    assert "1 pod waits at the gate" in only(told(raw_launcher())).conditions[0].message
    assert "gate" not in only(told()).conditions[0].message


def test_what_is_said_already_is_not_written_again():
    (condition,) = only(told(raw_launcher())).conditions
    shown = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    said = {**BINDER, "status": {"term": 1, "conditions": [shown]}}
    scene = a_scene(binders=[said], pods=[raw_launcher()], config=OFF)
    assert list(off.changes_of(scene)) == []
