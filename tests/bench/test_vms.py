"""Starts of VMs: which step an object shows, what is taken from which start, and which parts there are."""

import pytest
from typer.testing import CliRunner

from bench import api_scenarios, scenarios, vm_scenarios, vms
from bench.__main__ import app
from bench.figures import Collected
from bench.vms import Lives, Start, Step
from gpu import keys

PIN = {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def a_pod(*terms, gated=False, node=None, phase="Pending", **labels):
    """A launcher; each term is what it says of the node's fields."""
    spec = {"containers": []}
    if gated:
        spec["schedulingGates"] = [{"name": keys.PLACEMENT_GATE}]
    if terms:
        required = {"nodeSelectorTerms": [{"matchFields": list(term)} for term in terms]}
        spec["affinity"] = {"nodeAffinity": {REQUIRED: required}}
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {"name": "virt-launcher-web-x", "labels": labels},
        "spec": spec,
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("change", "pod", "wanted"),
    [
        pytest.param("ADDED", a_pod(gated=True), [], id="at-the-gate"),
        pytest.param("MODIFIED", a_pod([PIN], gated=True), [], id="pinned-and-still-gated"),
        pytest.param("MODIFIED", a_pod(), [], id="never-gated-and-not-pinned"),
        pytest.param("MODIFIED", a_pod([PIN], []), [], id="one-term-lets-it-anywhere"),
        pytest.param("MODIFIED", a_pod([PIN], [PIN]), [Step.LET], id="pinned-and-ungated"),
        pytest.param("MODIFIED", a_pod(node="n"), [Step.SCHEDULED], id="scheduled-without-us"),
        pytest.param(
            "MODIFIED",
            a_pod([PIN], node="n", phase="Failed"),
            [Step.LET, Step.SCHEDULED, Step.ENDED],
            id="ended",
        ),
        pytest.param("DELETED", a_pod(gated=True), [Step.ENDED], id="gone-from-the-gate"),
    ],
)
def test_a_launcher_shows_its_steps(change, pod, wanted):
    assert list(vms.steps_of_pod(change, pod)) == [Step.LAUNCHER, *wanted]


@pytest.mark.parametrize(
    ("change", "status", "wanted"),
    [
        pytest.param("ADDED", None, [Step.CREATED], id="without-a-status"),
        pytest.param("MODIFIED", {"phase": "Pending"}, [Step.CREATED], id="without-a-launcher"),
        pytest.param(
            "MODIFIED",
            {"phase": "Scheduling", "activePods": {"uid": ""}},
            [Step.CREATED, Step.LISTED],
            id="launcher-listed",
        ),
        pytest.param(
            "MODIFIED",
            {"phase": "Running", "activePods": {"uid": "n"}},
            [Step.CREATED, Step.LISTED, Step.RUNS],
            id="running",
        ),
        pytest.param("DELETED", {"phase": "Running"}, [Step.GONE], id="gone"),
        pytest.param("BOOKMARK", None, [], id="no-object"),
    ],
)
def test_an_instance_shows_its_steps(change, status, wanted):
    found = {"metadata": {"name": "web"}, **({"status": status} if status else {})}
    assert list(vms.steps_of_instance(change, found)) == wanted


def test_a_bookmark_of_pods_is_no_launcher():
    assert not list(vms.steps_of_pod("BOOKMARK", {"metadata": {"resourceVersion": "7"}}))


async def test_a_launcher_is_told_by_the_name_of_its_vm_and_each_step_by_its_first_sight():
    lives = Lives()
    lives.tell_instance("ADDED", {"metadata": {"name": "web"}}, 1.0)
    lives.tell_pod("ADDED", a_pod(gated=True, **{vms.OF_VM: "web"}), 1.5)
    lives.tell_pod("MODIFIED", a_pod([PIN], **{vms.OF_VM: "web"}), 2.0)
    lives.tell_pod("MODIFIED", a_pod([PIN], node="n", **{vms.OF_VM: "web"}), 3.0)
    lives.tell_pod("ADDED", a_pod(), 4.0)  # nobody's
    start = lives.start("web", 0.5)
    assert start.at == {
        Step.CREATED: 1.0,
        Step.LAUNCHER: 1.5,
        Step.LET: 2.0,
        Step.SCHEDULED: 3.0,
    }
    assert (start.took(None, Step.CREATED), start.took(Step.CREATED, Step.LET)) == (0.5, 1.0)


@pytest.mark.looptime
async def test_a_vm_that_never_gets_there_is_told_with_the_step():
    lives = Lives()
    with pytest.raises(TimeoutError, match="guest runs: 1 of 1 not there after 5 s, web"):
        await lives.reached(Step.RUNS, ["web"], within=5)


def starts(*seconds):
    return [Start(1.0, {Step.RUNS: 1.0 + one}) for one in seconds]


def test_our_share_is_what_a_start_takes_more_than_without_gpus():
    assert vm_scenarios.share_of(starts(3.0, 4.0, 9.0), starts(4.0, 5.0, 6.0)) == pytest.approx(20)


def test_our_share_without_what_kubevirt_takes_to_list_a_launcher():
    def start(listed, runs):
        at = {Step.LAUNCHER: 1.5, Step.LISTED: listed, Step.RUNS: runs}
        return Start(1.0, at)

    # Of 3 seconds without GPUs; with them 6, of which 2 and none are waited for the list.
    found = [start(3.5, 7.0), start(3.5, 7.0), start(1.4, 9.0)]
    assert vm_scenarios.share_of(starts(3.0), found, listing=False) == pytest.approx(25)
    assert vm_scenarios.share_of(starts(3.0), found) == pytest.approx(50)


@pytest.mark.parametrize("name", [*vm_scenarios.PARTS, *api_scenarios.PARTS])
def test_parts_that_take_long_are_measured_by_name_alone(name):
    assert name not in scenarios.PARTS
    assert name in scenarios.ALL_PARTS


async def test_no_plane_is_started_where_no_part_of_vms_is_named():
    said = []
    await vm_scenarios.measure(None, said.append, Collected(), [], ["orders"])
    assert said == []


def test_an_unknown_part_is_refused_with_all_that_there_are():
    told = CliRunner().invoke(app, ["vm-idles"], env={"COLUMNS": "300"})
    assert told.exit_code == 2
    assert ", ".join(vm_scenarios.PARTS) in told.output
