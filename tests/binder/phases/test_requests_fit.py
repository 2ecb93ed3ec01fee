"""Phase requests: a start is judged by what its launcher will ask, as one at the gate is; promised ones count."""

import json

import pytest

from gpu.binder import beside
from gpu.binder.phases import requests
from gpu.objects import foreseen
from tests import starting
from tests.binder import asking, raws
from tests.binder.asking import claim
from tests.binder.phases.test_requests import decided, scene, told, words
from tests.starting import REQUIRED

TWO = ("a", "b")
TAINT = {"key": "ours", "value": "x", "effect": "NoSchedule"}


NIC = "example.com/nic"
"""What a network asks for, as any other resource of a node."""


def launcher(*, labels=None, cpu="1", memory="1Gi", nics=0, **spec):
    """What a bind request says of the launcher."""
    asked = {"cpu": cpu, "memory": memory} | ({NIC: str(nics)} if nics else {})
    return foreseen.format_launcher(
        labels or {}, {"containers": [{"resources": {"requests": asked}}], **spec}
    )


def node(name, *, labels=None, cpu="64", memory="64Gi", nics=0, **how):
    made = raws.a_node(name, **how)
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **(labels or {})}
    made["status"]["allocatable"] |= {"cpu": cpu, "memory": memory, NIC: str(nics)}
    return made


def start(name="a", held=None, *, asks=None, id_="r1", **how):
    """A claim whose start tells of its launcher."""
    text = how.pop("launcher", None) or launcher()
    more = {"launcher": text, **how.pop("answer", {})}
    return claim(name, held, asks=asks or (name,), id_=id_, answer=more, **how)


def on(node, name="there", *, labels=None, cpu="1", apart=()):
    """A pod of somebody else that runs on a node."""
    made = raws.a_pod(name, node=node, units=0)
    made["metadata"]["labels"] = labels or {}
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu, "memory": "1Gi"}
    if apart:
        made["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: list(apart)}}
    return made


def affinity(**required):
    return {"affinity": {name: {REQUIRED: found} for name, found in required.items()}}


SSD = {"disk": "ssd"}
IN_ZONE = {"nodeSelectorTerms": [starting.node_term("disk", "ssd")]}
VOLUMES = [{"persistentVolumeClaim": {"claimName": "disk"}}]
FITS_N2 = {
    "its node selector": (launcher(nodeSelector=SSD), {}, {"labels": SSD}, []),
    "its node affinity": (launcher(**affinity(nodeAffinity=IN_ZONE)), {}, {"labels": SSD}, []),
    "its CPU": (launcher(cpu="8"), {"cpu": "8"}, {}, [on("n1")]),
    "its memory": (launcher(memory="8Gi"), {"memory": "7Gi"}, {}, []),
    "a pod that it must not be beside": (
        launcher(**affinity(podAntiAffinity=[starting.pod_term(app="x")])),
        {},
        {},
        [on("n1", labels={"app": "x"})],
    ),
    "a pod that must not be beside it": (
        launcher(labels={"app": "y"}),
        {},
        {},
        [on("n1", apart=[starting.pod_term(app="y")])],
    ),
    "a pod that it has to be beside": (
        launcher(**affinity(podAffinity=[starting.pod_term(app="x")])),
        {},
        {},
        [on("n2", labels={"app": "x"})],
    ),
    "no place for another pod": (launcher(), {"pods": 0}, {}, []),
    "its volume": (launcher(volumes=VOLUMES), {}, {"labels": SSD}, []),
    "what its network asks for": (launcher(nics=2), {"nics": 1}, {"nics": 2}, []),
}


def two_nodes(first, second):
    found = []
    for name, how in (("n1", first), ("n2", second)):
        pods = how.get("pods", 110)
        made = node(name, **{key: value for key, value in how.items() if key != "pods"})
        made["status"]["allocatable"]["pods"] = str(pods)
        found.append(made)
    return tuple(found)


def disk():
    terms = [starting.node_term("disk", "ssd")]
    return {
        "volume_claims": [starting.raw_volume_claim("disk", volume="pv")],
        "volumes": [starting.raw_volume("pv", node_terms=terms)],
    }


@pytest.mark.parametrize("held", [None, "n1"], ids=["an order", "held on the node"])
@pytest.mark.parametrize(("text", "n1", "n2", "pods"), FITS_N2.values(), ids=FITS_N2)
def test_a_start_goes_where_its_launcher_fits(text, n1, n2, pods, held):
    found = scene(start("a", held, launcher=text), nodes=two_nodes(n1, n2), pods=pods, **disk())
    assert told(found) == {"a": ("Succeeded", "n2", "Moved" if held else "Placed")}


@pytest.mark.parametrize(("text", "n1", "n2", "pods"), FITS_N2.values(), ids=FITS_N2)
def test_it_stays_on_the_first_where_nothing_is_said_of_a_launcher(text, n1, n2, pods):
    found = scene(claim("a"), nodes=two_nodes(n1, n2), pods=pods, **disk())
    assert told(found) == {"a": ("Succeeded", "n1", "Placed")}


def test_a_start_that_fits_nowhere_is_refused_with_what_it_asks_for_and_why():
    nodes = (node("n1", cpu="4"), node("n2", cpu="4"), node("n3", labels=SSD, cpu="4"))
    text = launcher(cpu="12", memory="13Gi", nodeSelector=SSD)
    said = words(scene(start("a", launcher=text), nodes=nodes))
    assert said.startswith(
        "no node with the units free takes the launcher pod, of 3 nodes: 2 are left out by its node "
        "selector, 1 lacks CPU: change what the VM asks for, or wait; with KubeVirt's own part it asks "
        "for 12 CPU; nothing was changed: claim a (1 unit of h100) on no node"
    )


@pytest.mark.parametrize("count", [3, 4, 5, 9])
def test_however_many_do_not_take_it_the_one_that_does_is_found(count):
    small = [node(f"n{number}", cpu="1") for number in range(count)]
    big = node("z", units=9)
    found = scene(start("a", launcher=launcher(cpu="2")), nodes=(*small, big))
    assert told(found) == {"a": ("Succeeded", "z", "Placed")}
    said = words(scene(start("a", launcher=launcher(cpu="2")), nodes=(*small, node("y", units=0))))
    assert f"of {count} nodes: {count} lack CPU" in said


def test_a_node_without_the_units_is_none_that_its_launcher_is_asked_about():
    nodes = (node("n1", units=1), node("n2", cpu="1"))
    said = words(scene(start("a", count=2, launcher=launcher(cpu="2")), nodes=nodes))
    assert "of 1 node: 1 lacks CPU" in said


def test_the_tolerations_of_its_classes_are_the_launchers_too():
    tolerant = raws.a_class(tolerations=[{"key": "ours", "operator": "Exists"}])
    found = scene(start("a"), nodes=(node("n1", taints=[TAINT]),), classes=[tolerant])
    assert told(found) == {"a": ("Succeeded", "n1", "Placed")}


def test_units_of_the_class_are_not_asked_for_twice():
    text = foreseen.format_launcher(
        {}, {"containers": [{"resources": {"requests": {raws.RESOURCE: "9"}}}]}
    )
    found = scene(start("a", launcher=text), nodes=(node("n1"),))
    assert told(found) == {"a": ("Succeeded", "n1", "Placed")}


def test_what_a_network_asks_for_is_told_by_its_name_and_no_number_of_any_node():
    nodes = (node("n1", nics=1), node("n2"))
    said = words(scene(start("a", launcher=launcher(nics=2)), nodes=nodes))
    assert f"of 2 nodes: 2 lack {NIC}: " in said
    assert f"it asks for 2 of {NIC}" in said


def test_what_a_network_of_a_promised_start_asks_for_is_not_there_for_another():
    first = start("s", vm="one", id_="r1", launcher=launcher(nics=1))
    second = start("t", vm="two", id_="r2", at=1, launcher=launcher(nics=1))
    found = scene(first, second, nodes=(node("n1", nics=1), node("n2", nics=1)))
    assert {name: it[:2] for name, it in told(found).items()} == {
        "s": ("Succeeded", "n1"),
        "t": ("Succeeded", "n2"),
    }
    found = scene(first, second, nodes=(node("n1", nics=1), node("n2")))
    assert {name: it[0] for name, it in told(found).items()} == {"s": "Succeeded", "t": "Refused"}


CORDONED = {
    "it fits there": (launcher(), ("Succeeded", "[n1]")),
    "it does not": (launcher(cpu="65"), ("Refused", "[n1]")),
}


@pytest.mark.parametrize(("text", "end"), CORDONED.values(), ids=CORDONED)
@pytest.mark.parametrize("stays", [True, False], ids=["Stay", "Move"])
def test_a_cordoned_node_is_waited_for_only_where_the_launcher_fits(text, end, stays):
    offer = raws.a_class(**({"onCordon": "Stay"} if stays else {}))
    there = node("n1", unschedulable=True, taints=[TAINT] if stays else [])
    found = scene(start("a", "n1", launcher=text), nodes=(there,), classes=[offer])
    assert told(found) == {"a": end}


# Starts beside each other.


def both(**how):
    return [
        start("s", vm="one", id_="r1", launcher=launcher(cpu="3"), **how),
        start("t", vm="two", id_="r2", at=1, launcher=launcher(cpu="3"), **how),
    ]


def test_of_two_starts_for_the_same_cpu_one_is_granted():
    found = scene(*both(), nodes=(node("n1", cpu="5"),))
    assert {name: it[0] for name, it in told(found).items()} == {"s": "Succeeded", "t": "Refused"}


def granted(name="s", vm="one", *, pods=None, uid="", cpu="3", **status):
    """A start that was promised n1."""
    answer = {"result": "Succeeded", "message": "m", "launcher": launcher(cpu=cpu)}
    more = raws.attached(vm, admission="r1", since=asking.SINCE, pods=pods, uid=uid) | status
    return claim(name, "n1", asks=(name,), vm=vm, id_="r1", answer=answer, status=more)


def next_start(*claims, cpu="5", **more):
    late = start("t", vm="two", id_="r2", at=1, launcher=launcher(cpu="3"))
    (end,) = {
        it[0] for it in told(scene(*claims, late, nodes=(node("n1", cpu=cpu),), **more)).values()
    }
    return end


def test_a_launcher_that_was_promised_counts_until_it_is_there():
    assert next_start(granted()) == "Refused"
    assert next_start(granted(), cpu="6") == "Succeeded"
    assert next_start(granted(cpu="1")) == "Succeeded"


def test_once_its_launcher_is_on_the_node_that_counts_instead():
    mine = on("n1", "pod-1", cpu="1")
    admissions = {"s": "r1"}
    vmi = raws.a_vmi(
        "one", uid="u", phase="Scheduling", pods={"pod-1": "n1"}, admissions=admissions
    )
    assert next_start(granted(uid="u"), pods=[mine], vmis=[vmi]) == "Succeeded"
    assert next_start(granted(), pods=[mine], vmis=[vmi]) == "Succeeded"  # not adopted yet
    noted = granted(uid="u", pods={"pod-1": "n1"})
    assert next_start(noted, pods=[mine]) == "Succeeded"
    assert next_start(granted(uid="u"), vmis=[vmi]) == "Refused"  # not shown yet


def test_a_vmi_of_its_name_that_is_another_start_says_nothing_of_it():
    mine = on("n1", "pod-1", cpu="1")
    vmi = raws.a_vmi("one", uid="u", pods={"pod-1": "n1"}, admissions={"s": "before"})
    assert next_start(granted(), pods=[mine], vmis=[vmi]) == "Refused"


def test_one_whose_vmi_is_over_counts_no_more():
    vmi = raws.a_vmi("one", uid="u", phase="Failed", admissions={"s": "r1"})
    assert next_start(granted(), vmis=[vmi]) == "Succeeded"


def test_what_another_pass_grants_meanwhile_counts():
    held, late = both()
    nodes = (node("n1", cpu="5"),)
    stays = start("s", "n1", vm="one", launcher=launcher(cpu="3"))
    for there in (held, stays):
        met = beside.of(tuple(requests.changes_of(scene(there, nodes=nodes))))
        second = beside.count(scene(late, nodes=nodes), met)
        (change,) = requests.changes_of(second)
        assert change.request.result.value == "Refused"
        assert "lacks CPU" in change.request.message


def test_a_start_that_is_begun_is_finished_beside_its_own_promise():
    done = {"result": "Succeeded", "message": "2 units held on node n1"}
    found = scene(
        start("a", "n1", asks=TWO, launcher=launcher(cpu="3"), answer=done),
        start("b", asks=TWO, launcher=launcher(cpu="3")),
        nodes=(node("n1", cpu="5"),),
    )
    assert told(found) == {"b": ("Succeeded", "n1", "Placed")}


@pytest.mark.parametrize("text", ["{", "[]", '{"spec": {"containers": 1}}', '{"metadata": 1}'])
def test_what_cannot_be_read_asks_for_nothing_but_units(text):
    assert told(scene(start("a", launcher=text)))["a"][0] == "Succeeded"


def test_a_launcher_reads_as_it_was_written():
    text = launcher(labels={"app": "x"}, cpu="1500m", memory="1Gi", nodeSelector=SSD)
    pod = foreseen.launcher(text, "tenant-a", "r1")
    assert (pod.needs.amounts, pod.needs.selector) == ({"cpu": 1500, "memory": 1 << 30}, SSD)
    assert (pod.meta.labels, pod.meta.namespace) == ({"app": "x"}, "tenant-a")
    assert json.loads(text)["metadata"] == {"labels": {"app": "x"}}
    assert decided(scene(start("a", launcher=text), nodes=(node("n1", labels=SSD),)))
