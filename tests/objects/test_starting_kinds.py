"""What a start looks at, as typed views: VMIs with references, launchers and their needs, volumes."""

import copy

import pytest

from gpu import keys
from gpu.objects import kubevirt, nodes, pod_needs, pods, storage, volumes
from gpu.objects.classes import Toleration
from gpu.objects.kubevirt import Device
from gpu.objects.meta import OwnerRef
from gpu.objects.pod_needs import HostPort, Needs, NodeTerm, PodTerm, Requirement
from gpu.objects.pods import Scheduled
from tests.builders import H100, START, a_pod, a_vmi
from tests.starting import (
    a_csi_node,
    a_launcher,
    a_machine,
    a_starting_vmi,
    a_storage_class,
    a_volume,
    a_volume_claim,
    node_term,
    pod_term,
    raw_launcher,
    raw_machine,
    raw_starting_vmi,
    raw_volume_claim,
)


def resolved(text):
    notes = {keys.RESOLVED_CLAIMS_ANNOTATION: text}
    return kubevirt.decode_vmi({"metadata": {"name": "vm", "annotations": notes}})


def test_what_the_webhook_resolved_reads_as_it_was_written():
    text = kubevirt.format_resolved({"b": "id-b", "a": "id-a"}, {"l40": 2, "h100": 1})
    assert text == (
        '[{"claim":"a","admission":"id-a"},{"claim":"b","admission":"id-b"},'
        '{"class":"h100","units":1},{"class":"l40","units":2}]'
    )
    found = resolved(text)
    assert found.is_resolved
    assert found.admissions == {"a": "id-a", "b": "id-b"}
    assert found.template_units == {"h100": 1, "l40": 2}


def test_a_record_of_nothing_is_a_record():
    assert kubevirt.format_resolved({}) == "[]"
    assert resolved("[]").is_resolved
    assert not a_vmi().is_resolved


@pytest.mark.parametrize(
    "text",
    [
        '[{"claim":"a","admission":"b"},7]',
        '[{"claim":"a","admission":"b"},{"claim":"a","admission":"c"}]',
        '[{"class":"h100","units":0}]',
        '[{"class":"h100","units":true}]',
        '[{"class":"h100","units":1.0}]',
        '[{"class":"h100","units":99999999999999999999}]',
        '[{"class":"h100","units":1},{"class":"h100","units":2}]',
        '[{"class":"","units":1}]',
        '[{"claim":"a"}]',
        "[" * 100_000,
        "",
    ],
    ids=lambda text: text[:60],
)
def test_a_record_with_anything_the_webhook_never_writes_is_none(text):
    found = resolved(text)
    assert (found.is_resolved, found.admissions, found.template_units) == (False, {}, {})


def test_a_vmi_shows_its_devices_volumes_and_vm():
    vmi = a_starting_vmi(
        gpus=["gpu.cozystack.io/h100", H100],
        host_devices=["claim.gpu.cozystack.io/a"],
        volume_claims=["root", "data", "root"],
        data_volumes=["image"],
        vm_uid="vm-1",
        provisioning=True,
    )
    assert vmi.gpus == (Device("gpu0", "gpu.cozystack.io/h100"), Device("gpu1", H100))
    assert vmi.host_devices == (Device("gpu0", "claim.gpu.cozystack.io/a"),)
    assert vmi.volumes == ("root", "data", "image")
    assert vmi.owner_vm == OwnerRef(
        api_version="kubevirt.io/v1",
        kind="VirtualMachine",
        name="vm",
        uid="vm-1",
        controller=True,
    )
    assert vmi.provisioning
    bare = a_starting_vmi()
    assert (bare.owner_vm, bare.provisioning, bare.volumes) == (None, False, ())


def test_volumes_of_a_vmi_are_found_wherever_a_claim_is_named():
    raw = raw_starting_vmi()
    raw["spec"]["volumes"] = [
        {"name": "a", "ephemeral": {"persistentVolumeClaim": {"claimName": "base"}}},
        {"name": "b", "memoryDump": {"claimName": "dump"}},
        {"name": "c", "containerDisk": {"image": "x"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "disk", "hotpluggable": True}},
    ]
    assert kubevirt.decode_vmi(raw).volumes == ("base", "dump", "disk")


def test_a_launcher_shows_what_became_of_it():
    pod = a_launcher(
        units=2,
        volume_claims=["root"],
        term=7,
        reason=f"OutOf{H100}",
        unscheduled="SchedulingGated",
        at=5,
    )
    assert (pod.term, pod.reason, pod.volumes) == (7, f"OutOf{H100}", ("root",))
    assert pod.scheduled is not None
    assert pod.scheduled.since is not None
    assert (pod.scheduled.status, pod.scheduled.reason) == ("False", "SchedulingGated")
    assert (pod.scheduled.since - START).total_seconds() == 5
    assert a_pod().scheduled is None
    assert pod.requests == {H100: 2}


def test_a_launcher_shows_the_ports_of_the_node_that_it_takes():
    raw = raw_launcher(ports=[{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}])
    side = {"containerPort": 3, "hostPort": 3, "hostIP": "10.0.0.1", "protocol": "UDP"}
    raw["spec"]["initContainers"] = [
        {"restartPolicy": "Always", "ports": [side]},
        {"ports": [side]},
    ]
    assert set(pods.decode(raw).needs.ports) == {
        HostPort(port=2, protocol="TCP", address="0.0.0.0"),
        HostPort(port=3, protocol="UDP", address="10.0.0.1"),
    }


def test_what_the_scheduler_says_anew_of_a_waiting_pod_is_no_change_of_it():
    raw = raw_launcher(unscheduled="Unschedulable")
    later = copy.deepcopy(raw)
    later["status"]["conditions"][0]["message"] = "0/3 nodes are available"
    later["metadata"]["resourceVersion"] = "99"
    assert pods.decode(later) == pods.decode(raw)
    later["status"]["conditions"][0]["reason"] = "SchedulingGated"
    assert pods.decode(later) != pods.decode(raw)
    assert pods.decode(later).scheduled == Scheduled(
        status="False", reason="SchedulingGated", since=START
    )


def test_a_generic_ephemeral_volume_is_a_claim_named_after_its_pod():
    raw = raw_launcher()
    raw["spec"]["volumes"] = [{"name": "tmp", "ephemeral": {}}, {"name": "x", "emptyDir": {}}]
    assert pods.decode(raw).volumes == ("launcher-tmp",)


def test_needs_are_read_whole():
    pod = a_launcher(
        selector={"zone": "a"},
        node_terms=[
            node_term("gen", "3", operator="Gt"),
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        ],
        near=[pod_term("zone", app="db")],
        apart=[
            {
                "topologyKey": "host",
                "namespaces": ["tenant-b"],
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
            },
            {"topologyKey": "host"},
        ],
        tolerations=[
            {"key": "gpu", "value": "x"},
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
        ],
        requests={"cpu": "1500m", "memory": "1Gi"},
    )
    assert pod.needs == Needs(
        selector={"zone": "a"},
        node_terms=(
            NodeTerm(labels=(Requirement(key="gen", operator="Gt", values=("3",)),)),
            NodeTerm(fields=(Requirement(key="metadata.name", operator="In", values=("n1",)),)),
        ),
        affinity=(
            PodTerm(
                topology="zone",
                selector=(Requirement(key="app", operator="In", values=("db",)),),
            ),
        ),
        anti_affinity=(
            PodTerm(
                topology="host",
                selector=(Requirement(key="x", operator="Exists"),),
                namespaces=("tenant-b",),
                namespace_selector=(),
            ),
            PodTerm(topology="host"),
        ),
        tolerations=(
            Toleration(key="gpu", value="x"),
            Toleration(operator="Exists", effect="NoExecute", seconds=9),
        ),
        amounts={"cpu": 1500, "memory": 2**30, H100: 1},
    )


def test_pods_of_equal_needs_share_them():
    assert a_launcher("a").needs is a_launcher("b").needs


def of(requests, **more):
    return {"name": "c", "resources": {"requests": requests}, **more}


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        ({"containers": [of({"cpu": "1"}), of({"cpu": "0.5"})]}, {"cpu": 1500}),
        (
            {
                "containers": [of({"cpu": "1"})],
                "initContainers": [
                    of({"cpu": "2"}, restartPolicy="Always"),
                    of({"cpu": "3", "memory": "1"}),
                ],
            },
            {"cpu": 5000, "memory": 1},
        ),
        (
            {"containers": [of({"cpu": "1"})], "overhead": {"cpu": "250m", "memory": "1Mi"}},
            {"cpu": 1250, "memory": 2**20},
        ),
        (
            {
                "containers": [of({"cpu": "1", "x.y/z": "1"})],
                "resources": {"requests": {"cpu": "3", "memory": "2", "hugepages-2Mi": "4Mi"}},
                "overhead": {"cpu": "1m"},
            },
            {"cpu": 3001, "memory": 2, "hugepages-2Mi": 4 * 2**20, "x.y/z": 1},
        ),
        (
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
            {"cpu": 1000},
        ),
        ({"containers": [of({"cpu": "100u", "memory": "1m"})]}, {"cpu": 1, "memory": 1}),
        ({"containers": [of({"cpu": "what", "memory": {}})]}, {}),
    ],
    ids=["add up", "a peak", "overhead", "of the pod", "limits", "rounded up", "unreadable"],
)
def test_a_pod_asks_for_what_the_scheduler_counts(spec, amounts):
    assert pod_needs.needs({"spec": spec}).amounts == amounts


def test_a_node_shows_all_it_can_allocate():
    found = a_machine(amounts={"cpu": "3500m", "hugepages-1Gi": "2Gi"}, labels={"zone": "a"})
    assert found.meta.labels == {"kubernetes.io/hostname": "n1", "zone": "a"}
    assert found.amounts == {
        "cpu": 3500,
        "memory": 512 * 2**30,
        "pods": 110,
        "hugepages-1Gi": 2 * 2**30,
        H100: 8,
    }
    raw = raw_machine()
    raw["status"]["allocatable"] |= {"odd": True, "odder": {}}
    assert nodes.decode(raw).amounts.keys() == {"cpu", "memory", "pods", H100}


def test_an_allocatable_amount_that_changed_is_a_change_of_its_node():
    raw = raw_machine()
    later = copy.deepcopy(raw)
    later["status"]["allocatable"]["memory"] = "511Gi"
    assert nodes.decode(later) != nodes.decode(raw)


def test_volumes_are_read_as_far_as_a_node_matters():
    claim, other = a_volume_claim(volume="pv"), a_volume_claim("other", deleting=True)
    assert (claim.volume, claim.phase, claim.meta.deleting) == ("pv", "Bound", False)
    assert (other.volume, other.phase, other.meta.deleting) == ("", "Pending", True)
    assert (claim.bound, other.bound) == (True, False)
    assert not a_volume_claim(volume="pv", bound=False).bound
    assert a_volume_claim(modes=["ReadWriteOncePod"]).alone
    assert not claim.alone
    assert claim.state_of == ""
    assert a_volume_claim(labels={"persistent-state-for": "vm", "x": "y"}).state_of == "vm"
    later = a_volume_claim(storage_class="late", chosen="n1")
    assert (later.class_name, later.chosen) == ("late", "n1")
    raw = raw_volume_claim(storage_class="late")
    raw["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert volumes.decode(raw).class_name == "old"
    assert a_volume().terms is None
    assert a_volume(node_terms=[node_term("zone", "a")]).terms == (
        NodeTerm(labels=(Requirement(key="zone", operator="In", values=("a",)),)),
    )


def test_what_attaches_a_volume_is_read_of_sources_old_and_new():
    csi = a_volume(source={"csi": {"driver": "d.example.com", "volumeHandle": "h"}})
    assert (csi.driver, csi.handle) == ("d.example.com", "h")
    old = a_volume(source={"gcePersistentDisk": {"pdName": "x"}})
    assert (old.driver, old.handle) == ("pd.csi.storage.gke.io", "volume pv")
    assert (a_volume(source={"nfs": {}}).driver, a_volume().handle) == ("", "")


def test_a_storage_class_shows_when_and_where_its_volumes_are_made():
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}, {}]
    found = a_storage_class("late", driver="kubernetes.io/cinder", allowedTopologies=terms)
    assert (found.meta.name, found.waits) == ("late", True)
    assert found.driver == "cinder.csi.openstack.org"
    assert found.topologies == ((Requirement(key="zone", operator="In", values=("a", "b")),), ())
    assert not a_storage_class(late=False).waits
    assert storage.decode_class({"metadata": {"name": "x"}, "provisioner": "p"}).waits is False


def test_a_csi_node_shows_the_limits_it_has():
    assert a_csi_node(a_example_com=2, b_example_com=None).limits == {"a.example.com": 2}
    assert storage.decode_csi_node({"metadata": {"name": "n1"}, "spec": {}}).limits == {}
