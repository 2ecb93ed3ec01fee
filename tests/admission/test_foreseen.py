"""The launcher foreseen of a VMI: what it asks of a node, as KubeVirt 1.8.4 renders it, or more."""

import copy
import json

import pytest

from gpu.admission import foreseen, review
from gpu.admission.review import Denied
from gpu.objects import foreseen as stored
from gpu.objects import kubevirt
from tests import builders, starting
from tests.admission import starts

MIB = 1 << 20
GIB = 1 << 30
CLAIM = starts.claim("c")


def a_vmi(**spec):
    body = starts.a_vmi("vm", gpus=[CLAIM])
    domain = spec.pop("domain", {})
    devices = {**body["spec"]["domain"]["devices"], **domain.pop("devices", {})}
    body["spec"] = {"domain": {**domain, "devices": devices}, **spec}
    return body


def text_of(body, configuration=None, nodes=()):
    asked = review.decode(starts.request(body))
    raw = {"metadata": {"name": "kv"}, "spec": {"configuration": configuration or {}}}
    world = builders.a_world(kubevirts=[kubevirt.decode_kubevirt(raw)], nodes=list(nodes))
    return foreseen.launcher(asked, world)


def pod_of(body, configuration=None, nodes=()):
    return stored.launcher(text_of(body, configuration, nodes), "tenant-a", "r")


def amounts(domain=None, configuration=None, **spec):
    return dict(pod_of(a_vmi(domain=domain or {}, **spec), configuration).needs.amounts)


QUIET = {"virtualMachineOptions": {"disableSerialConsoleLog": {}}}
BASE = 220 * MIB + 16 * MIB + 1024 * MIB
"""Of one virtual CPU, without a screen."""
BLIND = {"autoattachGraphicsDevice": False}


def guest(memory="1Gi", **more):
    return {"memory": {"guest": memory}, "devices": BLIND} | more


CPU = {
    "nothing said": ({}, {}, 100),
    "its topology": ({"cpu": {"cores": 4, "sockets": 2, "threads": 2}}, {}, 1600),
    "one part of it": ({"cpu": {"sockets": 3}}, {}, 300),
    "the ratio of the cluster": (
        {"cpu": {"cores": 4}},
        {"developerConfiguration": {"cpuAllocationRatio": 1}},
        4000,
    ),
    "its request": ({"cpu": {"cores": 4}, "resources": {"requests": {"cpu": "2500m"}}}, {}, 2500),
    "its limit without a request": ({"resources": {"limits": {"cpu": "3"}}}, {}, 3000),
    "what the hoster gives each": ({"cpu": {"cores": 4}}, {"cpuRequest": "300m"}, 300),
    "dedicated": ({"cpu": {"cores": 4, "dedicatedCpuPlacement": True}}, {"cpuRequest": "1m"}, 4000),
    "dedicated, with a thread of its own": (
        {"cpu": {"cores": 4, "dedicatedCpuPlacement": True, "isolateEmulatorThread": True}},
        {},
        5000,
    ),
    "threads for disks": (
        {"cpu": {"cores": 4}, "ioThreads": {"supplementalPoolThreadCount": 6}},
        {},
        1000,
    ),
}


@pytest.mark.parametrize(("domain", "configuration", "wanted"), CPU.values(), ids=CPU)
def test_cpu(domain, configuration, wanted):
    assert amounts(domain, QUIET | configuration)["cpu"] == wanted


PAGES = {"hugepages": {"pageSize": "2Mi"}}
OVERCOMMITTED = {"developerConfiguration": {"memoryOvercommit": 200}}
MEMORY = {
    "of its guest": (guest(), {}, {"memory": GIB + BASE + 2 * MIB}),
    "more where it has a screen": (
        guest(devices={}),
        {},
        {"memory": GIB + BASE + 34 * MIB},
    ),
    "its request": (
        guest(resources={"requests": {"memory": "2Gi"}}),
        {},
        {"memory": 2 * GIB + BASE + 4 * MIB},
    ),
    "its limit": (
        {"resources": {"limits": {"memory": "2Gi"}}, "devices": BLIND},
        {},
        {"memory": 2 * GIB + BASE + 4 * MIB},
    ),
    "half of it where memory is overcommitted": (
        guest(),
        OVERCOMMITTED,
        {"memory": GIB // 2 + BASE + 2 * MIB},
    ),
    "hugepages": (
        guest(memory=None) | {"memory": {"guest": "1Gi", **PAGES}},
        {},
        {"memory": BASE + 2 * MIB, "hugepages-2Mi": GIB},
    ),
    "hugepages for part of it": (
        guest(resources={"requests": {"memory": "2Gi"}}) | {"memory": {"guest": "1Gi", **PAGES}},
        {},
        {"memory": GIB + BASE + 4 * MIB, "hugepages-2Mi": GIB},
    ),
    "none beside it": (
        guest(resources={"overcommitGuestOverhead": True}),
        {},
        {"memory": GIB},
    ),
    "what the hoster adds to it": (
        guest(),
        {"additionalGuestMemoryOverheadRatio": "2"},
        {"memory": GIB + 2 * (BASE + 2 * MIB)},
    ),
    "of each virtual CPU": (
        guest(cpu={"cores": 5}),
        {},
        {"memory": GIB + BASE + 2 * MIB + 32 * MIB},
    ),
    "guaranteed": (
        guest(cpu={"cores": 1, "dedicatedCpuPlacement": True}),
        {},
        {"memory": GIB + BASE + 102 * MIB},
    ),
    "of a TPM and of secrecy": (
        guest(devices={**BLIND, "tpm": {}}, launchSecurity={"sev": {}}),
        {},
        {"memory": GIB + BASE + 2 * MIB + 309 * MIB},
    ),
}


@pytest.mark.parametrize(("domain", "configuration", "wanted"), MEMORY.values(), ids=MEMORY)
def test_memory(domain, configuration, wanted):
    found = amounts(domain, QUIET | configuration)
    names = ("memory", "hugepages-2Mi")
    assert {name: found[name] for name in names if name in found} == wanted


def test_an_arm_guest_has_its_firmware_beside_it():
    there = amounts(guest(), QUIET, architecture="arm64")["memory"]
    assert there - amounts(guest(), QUIET)["memory"] == 128 * MIB


def test_probes_that_run_something_take_memory():
    probe = {"exec": {"command": ["true"]}}
    there = amounts(guest(), QUIET, livenessProbe=probe, readinessProbe=probe)["memory"]
    assert there - amounts(guest(), QUIET)["memory"] == 120 * MIB


def test_containers_beside_the_guest_are_counted():
    base = amounts(guest(), QUIET)
    disks = [{"name": "root", "containerDisk": {"image": "x"}}]
    found = amounts(guest(), {}, volumes=disks)
    assert found["cpu"] - base["cpu"] == 6
    assert found["memory"] - base["memory"] == 36_000_000
    assert (base["ephemeral-storage"], found["ephemeral-storage"]) == (50_000_000, 100_000_000)
    more = {"type": "guest-console-log", "resources": {"requests": {"cpu": "50m"}}}
    changed = amounts(guest(), {"supportContainerResources": [more]}, volumes=disks)
    assert changed["cpu"] - base["cpu"] == 51


DEVICES = {
    "usual": ({}, {}, {"kvm", "tun", "vhost-net"}),
    "without KVM": ({}, {"developerConfiguration": {"useEmulation": True}}, {"tun"}),
    "without a network": ({"autoattachPodInterface": False}, {}, {"kvm"}),
    "with another network card": (
        {"interfaces": [{"name": "n", "model": "e1000"}]},
        {},
        {"kvm", "tun"},
    ),
    "with a socket": ({"autoattachVSOCK": True}, {}, {"kvm", "tun", "vhost-net", "vhost-vsock"}),
}


@pytest.mark.parametrize(("devices", "configuration", "wanted"), DEVICES.values(), ids=DEVICES)
def test_devices_of_the_machine(devices, configuration, wanted):
    found = amounts({"devices": devices}, configuration)
    of_machine = "devices.kubevirt.io/"
    assert {name: count for name, count in found.items() if name.startswith(of_machine)} == {
        f"{of_machine}{name}": 1 for name in wanted
    }


def test_devices_by_their_own_names_are_asked_for_and_what_is_ours_is_not():
    gpus = [starts.gpu("example.com/nic"), starts.unit(), CLAIM]
    devices = {"gpus": gpus, "hostDevices": [starts.gpu("example.com/nic")]}
    resources = {"limits": {"example.com/fast": "3", "gpu.cozystack.io/h100": "1"}}
    found = amounts({"devices": devices, "resources": resources})
    assert {
        name: count for name, count in found.items() if "/" in name and "kubevirt" not in name
    } == {
        "example.com/nic": 2,
        "example.com/fast": 3,
    }


# Labels of nodes, and everything else.


def selector(body, configuration=None, nodes=()):
    return dict(pod_of(body, configuration, nodes).needs.selector)


def test_what_every_launcher_asks_of_a_node():
    configuration = {
        "architectureConfiguration": {"defaultArchitecture": "amd64"},
        "developerConfiguration": {"nodeSelectors": {"vms": "yes", "disk": "any"}},
        "cpuModel": "Nehalem",
    }
    assert selector(a_vmi(nodeSelector={"disk": "ssd"}), configuration) == {
        "kubevirt.io/schedulable": "true",
        "kubernetes.io/arch": "amd64",
        "vms": "yes",
        "disk": "ssd",
        "cpu-model.node.kubevirt.io/Nehalem": "true",
    }


def test_features_of_a_cpu_are_asked_for_or_kept_away_from():
    features = [
        {"name": "x"},
        {"name": "y", "policy": "optional"},
        {"name": "z", "policy": "forbid"},
        {"name": "w", "policy": "require"},
    ]
    pod = pod_of(a_vmi(domain={"cpu": {"model": "host-passthrough", "features": features}}))
    assert dict(pod.needs.selector) == {
        "kubevirt.io/schedulable": "true",
        "cpu-feature.node.kubevirt.io/x": "true",
        "cpu-feature.node.kubevirt.io/w": "true",
    }
    (term,) = pod.needs.node_terms
    assert [(it.key, it.operator) for it in term.labels] == [
        ("cpu-feature.node.kubevirt.io/z", "DoesNotExist")
    ]


def test_a_mark_of_hosts_is_asked_for_where_any_node_has_it():
    body = a_vmi(domain={"machine": {"type": "q35"}, "cpu": {"dedicatedCpuPlacement": True}})
    label = "machine-type.node.kubevirt.io/q35"
    assert selector(body) == {"kubevirt.io/schedulable": "true"}
    there = starting.a_machine("n1", labels={label: "true"})
    assert selector(body, nodes=[there]) == {"kubevirt.io/schedulable": "true", label: "true"}


def test_every_term_of_its_own_affinity_keeps_away_from_a_host_whose_model_is_obsolete():
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    apart = [{"topologyKey": "zone"}]
    own = {
        "nodeAffinity": {required: {"nodeSelectorTerms": [zone, name]}, "preferred": []},
        "podAntiAffinity": {required: apart},
    }
    needs = pod_of(a_vmi(affinity=own)).needs
    obsolete = "node-labeller.kubevirt.io/obsolete-host-model"
    assert [[it.key for it in term.labels] for term in needs.node_terms] == [
        ["zone", obsolete],
        [obsolete],
    ]
    assert [len(term.fields) for term in needs.node_terms] == [0, 1]
    assert [term.topology for term in needs.anti_affinity] == ["zone"]


def test_labels_tolerations_and_volumes_are_its_own():
    body = a_vmi(
        tolerations=[{"key": "mine", "operator": "Exists"}],
        volumes=[
            {"name": "a", "persistentVolumeClaim": {"claimName": "disk"}},
            {"name": "b", "dataVolume": {"name": "data"}},
            {"name": "c", "dataVolume": {"name": "data"}},
        ],
    )
    body["metadata"]["labels"] = {"app": "x", "kubevirt.io": "mine"}
    pod = pod_of(body)
    assert pod.meta.labels == {
        "app": "x",
        "kubevirt.io": "virt-launcher",
        "vm.kubevirt.io/name": "vm",
    }
    assert [it.key for it in pod.needs.tolerations] == ["mine"]
    assert pod.volumes == ("disk", "data")


def test_one_that_says_more_than_is_looked_at_is_refused():
    body = a_vmi(nodeSelector={f"label-{number}": "x" * 60 for number in range(300)})
    found = text_of(body)
    assert isinstance(found, Denied)
    assert (found.code, found.causes[0].reason) == (403, "PodFitsNowhere")
    assert "longer than the 16384 characters" in found.message


def test_one_whose_shape_is_broken_is_refused_as_kubevirt_would():
    found = text_of(a_vmi(domain={"cpu": {"cores": "many"}}))
    assert isinstance(found, Denied)
    assert found.code == 422


def test_what_cannot_be_counted_is_bounded():
    body = a_vmi(domain={"memory": {"guest": "9" * 40}, "cpu": {"cores": 2**31, "sockets": 2**31}})
    assert len(json.loads(text_of(body))["spec"]["containers"]) == 1
    assert pod_of(body).needs.amounts["memory"] == 2**63 - 1


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EVERYTHING = {
    "domain": {
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"x/y": "1"}},
        "cpu": {"cores": 1, "model": "m", "features": [{"name": "f", "policy": "forbid"}]},
        "memory": {"guest": "1Gi", "hugepages": {"pageSize": "2Mi"}, "reservedOverhead": {}},
        "devices": {
            "gpus": [CLAIM],
            "hostDevices": [starts.gpu("x/y")],
            "interfaces": [{"name": "n", "model": "virtio", "binding": {"name": "b"}}],
            "filesystems": [{"name": "f", "virtiofs": {}}],
            "autoattachVSOCK": True,
        },
        "ioThreads": {"supplementalPoolThreadCount": 2},
        "machine": {"type": "q35"},
        "launchSecurity": {"sev": {}},
        "firmware": {"kernelBoot": {"container": {}}},
    },
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k"}]}]}},
        "podAntiAffinity": {REQUIRED: [{"topologyKey": "t", "labelSelector": {}}]},
    },
    "tolerations": [{"key": "k"}],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    "livenessProbe": {"exec": {}},
}


def paths_of(value, path=()):
    yield path
    found = value if isinstance(value, dict | list) else {}
    for name, child in found.items() if isinstance(found, dict) else enumerate(found):
        yield from paths_of(child, (*path, name))


def with_at(value, path, other):
    if not path:
        return other
    made = copy.copy(value)
    made[path[0]] = with_at(value[path[0]], path[1:], other)
    return made


RUBBISH = (None, True, -1, 2**70, "", "1", "x" * 9, [], [None], {}, {"a": 1}, [{"a": []}])


@pytest.mark.parametrize("path", list(paths_of(EVERYTHING)), ids=lambda it: ".".join(map(str, it)))
def test_whatever_a_vmi_says_there_is_an_answer(path):
    """One that can be read, or a denial: never an error, which kube-apiserver would take for our fault."""
    for other in RUBBISH:
        body = a_vmi()
        body["spec"] = with_at(EVERYTHING, path, other)
        found = text_of(body)
        if isinstance(found, Denied):
            assert found.code == 422
        else:
            pod = stored.launcher(found, "tenant-a", "r")
            assert pod is not None, other
            assert all(0 < amount < 2**63 for amount in pod.needs.amounts.values())
