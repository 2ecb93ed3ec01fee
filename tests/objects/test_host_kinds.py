"""Kinds of Kubernetes, KubeVirt and the host as typed views: only what the product looks at."""

import copy

import pytest

from gpu import keys
from gpu.errors import DecodeError
from gpu.objects import config_maps, kubevirt, nodes, pods, tenants, workloads
from gpu.objects.nodes import Node, Taint
from gpu.objects.tenants import Declared
from tests.builders import (
    H100,
    L40,
    START,
    a_kubevirt,
    a_namespace,
    a_node,
    a_pod,
    a_quota,
    a_release,
    a_taint,
    a_vmi,
    raw_node,
    raw_pod,
    raw_release,
)


def test_a_node_is_read_as_far_as_placement_looks():
    found = a_node(also={L40: 2}, cordoned=True, taints=[a_taint()])
    assert found == Node(
        meta=found.meta,
        ready=True,
        ready_since=START,
        cordoned=True,
        taints=(Taint(key="dedicated", value="gpu", effect="NoSchedule"),),
        allocatable={H100: 8, L40: 2},
        amounts={"cpu": 64_000, "memory": 512 * 2**30, "pods": 110, H100: 8, L40: 2},
    )


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "DiskPressure", "status": "True"}], False),
        ([{"type": "Ready", "status": "True"}], True),
    ],
    ids=["none", "Unknown", "False", "another", "True"],
)
def test_a_node_is_ready_only_when_it_says_so(conditions, ready):
    raw = raw_node()
    raw["status"]["conditions"] = conditions
    assert nodes.decode(raw).ready is ready


def test_a_heartbeat_image_or_annotation_is_no_change_of_a_node():
    raw = raw_node()
    later = copy.deepcopy(raw)
    later["metadata"] |= {"annotations": {"csi": "x"}, "resourceVersion": "9", "generation": 4}
    later["status"]["images"] = [{"names": ["x"]}]
    later["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:01:00Z"
    assert nodes.decode(later) == nodes.decode(raw)


def test_only_whole_extended_resources_are_kept():
    assert nodes.extended(
        {"cpu": "64", "a/b": "4", "a/k": "1k", "a/half": "500m", "a/bad": "x", "a/neg": "-1"}
    ) == {"a/b": 4, "a/k": 1000}


def test_a_pod_is_live_until_it_succeeded_or_failed():
    phases = ("Pending", "Running", "Unknown", "Succeeded", "Failed")
    assert [a_pod(phase=phase).live for phase in phases] == [True, True, True, False, False]


def test_a_pod_shows_its_node_gates_and_requests():
    found = a_pod(on="n1", units=2, gates=["gpu.cozystack.io/placement"])
    assert (found.node, found.gates, found.requests) == (
        "n1",
        ("gpu.cozystack.io/placement",),
        {H100: 2},
    )
    assert a_pod().node is None


def container(units, **more):
    return {"name": "c", "resources": {"limits": {H100: str(units)}}, **more}


@pytest.mark.parametrize(
    ("spec", "units"),
    [
        ({"containers": [container(1), container(2)]}, 3),
        ({"containers": [container(1)], "initContainers": [container(4)]}, 4),
        ({"containers": [container(3)], "initContainers": [container(2)]}, 3),
        (
            {
                "containers": [container(1)],
                "initContainers": [container(2, restartPolicy="Always"), container(3)],
            },
            5,
        ),
        (
            {
                "containers": [container(4)],
                "initContainers": [container(3), container(2, restartPolicy="Always")],
            },
            6,
        ),
        ({"containers": [{"name": "c"}]}, 0),
    ],
    ids=["add up", "init is a peak", "init below", "sidecar before init", "sidecar after", "none"],
)
def test_a_pod_requests_what_the_scheduler_counts(spec, units):
    raw = raw_pod() | {"spec": spec}
    assert pods.decode(raw).requests.get(H100, 0) == units


def test_a_pod_names_the_vmi_that_controls_it():
    raw = raw_pod()
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm"}
    raw["metadata"]["ownerReferences"] = [
        {**owner, "uid": "other"},
        {**owner, "uid": "mine", "controller": True},
    ]
    assert pods.decode(raw).vmi_uid == "mine"
    assert a_pod().vmi_uid == ""


def with_annotation(text):
    return {"metadata": {"name": "vm", "annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: text}}}


@pytest.mark.parametrize(
    "text",
    ["", "{", "7", '{"claim":"a","admission":"b"}', '[1, {"claim": 2}]', "[" * 100_000],
    ids=["empty", "no JSON", "a number", "no list", "other items", "nested without end"],
)
def test_what_a_tenant_wrote_where_the_webhook_writes_reads_as_nothing(text):
    assert kubevirt.decode_vmi(with_annotation(text)).admissions == {}


def test_a_vm_names_no_more_claims_than_one_vm_can_have():
    many = [f"c{number:05d}" for number in range(5000)]
    template = {"metadata": {"annotations": {keys.CLAIMS_ANNOTATION: ",".join(many)}}}
    vm = kubevirt.decode_vm({"metadata": {"name": "vm"}, "spec": {"template": template}})
    assert vm.claims == tuple(many[: kubevirt.MOST_CLAIMS])


def test_a_vmi_shows_its_active_pods():
    assert a_vmi(active={"p": "n1"}).active_pods == {"p": "n1"}
    assert kubevirt.decode_vmi({"metadata": {"name": "vm"}}).active_pods == {}


def test_kubevirts_table_is_read_once_each_sorted_or_is_absent():
    assert a_kubevirt(H100, L40, H100).permitted == (L40, H100)
    assert a_kubevirt().permitted == ()
    assert a_kubevirt(table=False).permitted is None


def test_mediated_devices_are_in_the_table_and_usb_is_not():
    table = {
        "mediatedDevices": [{"mdevNameSelector": "x", "resourceName": "nvidia.com/GRID"}],
        "usb": [{"resourceName": "kubevirt.io/stick"}],
    }
    raw = {
        "metadata": {"name": "kubevirt"},
        "spec": {"configuration": {"permittedHostDevices": table}},
    }
    assert kubevirt.decode_kubevirt(raw).permitted == ("nvidia.com/GRID",)


def table_of(*entries, part="pciHostDevices"):
    found = [
        {"resourceName": name, **({"pciVendorSelector": it} if it else {})} for name, it in entries
    ]
    raw = {"spec": {"configuration": {"permittedHostDevices": {part: found}}}}
    return kubevirt.decode_kubevirt({"metadata": {"name": "kubevirt"}, **raw})


@pytest.mark.parametrize(
    ("entries", "gpus"),
    [
        pytest.param([("nvidia.com/GH100", "10DE:2330")], ("nvidia.com/GH100",), id="a GPU"),
        pytest.param([("mellanox.com/cx6", "15B3:101D")], (), id="a network card"),
        pytest.param([("mellanox.com/cx6", "15b3:101e")], (), id="in lower case"),
        pytest.param([("samsung.com/nvme", "144D:A80A")], (), id="a disk"),
        pytest.param([("intel.com/x", "8086:56C0")], ("intel.com/x",), id="its maker has GPUs too"),
        pytest.param([("intel.com/nic", "8086:1592")], (), id="a network card of such a maker"),
        pytest.param([("intel.com/vf", "8086:154C")], (), id="a virtual function of one"),
        pytest.param([("intel.com/x", "8086:FFFE")], ("intel.com/x",), id="a device nobody knows"),
        pytest.param([("x.com/y", "10DE:1592")], ("x.com/y",), id="that id of another maker"),
        pytest.param([("intel.com/x", "8086")], ("intel.com/x",), id="no device id"),
        pytest.param([("x.com/y", "FFFF:0001")], ("x.com/y",), id="a maker nobody knows"),
        pytest.param([("x.com/y", "")], ("x.com/y",), id="no selector"),
        pytest.param([("x.com/y", "mlx5")], ("x.com/y",), id="no PCI selector"),
        pytest.param(
            [("x.com/y", "15B3:101D"), ("x.com/y", "10DE:2330")], ("x.com/y",), id="of two makers"
        ),
    ],
)
def test_a_permitted_device_counts_as_a_gpu_unless_it_is_known_to_be_none(entries, gpus):
    found = table_of(*entries)
    assert found.gpus == gpus
    assert found.permitted == tuple(sorted({name for name, _ in entries})), "still permitted"


def test_a_mediated_device_counts_as_a_gpu_whatever_it_says():
    assert table_of(("x.com/y", "15B3:101D"), part="mediatedDevices").gpus == ("x.com/y",)


@pytest.mark.parametrize(
    ("name", "tenant"),
    [("tenant-a", "tenant-a"), ("tenant-root", "tenant-root"), ("default", None), ("tenant", None)],
)
def test_a_namespace_is_a_tenants_by_its_name(name, tenant):
    assert a_namespace(name).tenant == tenant


def test_only_the_word_true_entitles():
    assert a_namespace(entitled=True).entitled
    assert not a_namespace().entitled


@pytest.mark.parametrize(
    ("tenant", "parent"),
    [
        ("tenant-root", None),
        ("tenant-a", "tenant-root"),
        ("tenant-a-b", "tenant-a"),
        ("tenant-a-b-c", "tenant-a-b"),
    ],
)
def test_a_tenants_parent_is_its_name_less_the_last_part(tenant, parent):
    assert tenants.parent_of(tenant) == parent


@pytest.mark.parametrize(
    "tenant", ["tenant-root", "tenant-a", "tenant-a-b", "tenant-a-b-c"], ids=str
)
def test_a_release_makes_the_tenant_named_by_its_place(tenant):
    assert a_release(tenant).tenant == tenant


def test_declared_quotas_are_read_in_every_form_and_what_is_none_counts_as_0():
    found = a_release(
        quotas={
            "gpu.cozystack.io/h100": 4,
            "gpu.cozystack.io/total": "1k",
            H100: "2000m",
            L40: "half",
            "gpu.cozystack.io/l40": -1,
            "gpu.cozystack.io/a": "500m",
            "cpu": "x",
            "count/pods.x": "3",
        }
    )
    assert found.declared == Declared(
        units={
            "gpu.cozystack.io/h100": 4,
            "gpu.cozystack.io/total": 1000,
            H100: 2,
            L40: 0,
            "gpu.cozystack.io/l40": 0,
            "gpu.cozystack.io/a": 0,
        },
        unreadable={
            L40: "'half' is not a quantity",
            "gpu.cozystack.io/l40": "-1 units: an amount cannot be negative",
            "gpu.cozystack.io/a": "'500m' is a fraction: units are whole",
        },
    )


@pytest.mark.parametrize(
    "values", [None, {}, {"resourceQuotas": None}, {"resourceQuotas": {}}], ids=str
)
def test_a_release_without_quotas_declares_nothing(values):
    raw = raw_release()
    raw["spec"]["values"] = values
    assert tenants.decode_release(raw).declared == Declared()


@pytest.mark.parametrize(
    ("values", "kind"),
    [({"resourceQuotas": []}, "list"), ({"resourceQuotas": "4"}, "str"), ("text", "str")],
    ids=str,
)
def test_quotas_without_keys_leave_nothing_to_be_ordered(values, kind):
    raw = raw_release()
    raw["spec"]["values"] = values
    assert tenants.decode_release(raw).declared == Declared(
        units={"gpu.cozystack.io/total": 0},
        unreadable={"gpu.cozystack.io/total": f"resourceQuotas is {kind}, not a table of keys"},
    )


def test_of_two_spellings_in_a_resource_quota_the_smaller_counts():
    both = {f"requests.{H100}": "4", H100: "2", f"requests.{L40}": "1", L40: "x"}
    assert a_quota(of=both).declared == Declared(
        units={H100: 2, L40: 0}, unreadable={L40: "'x' is not a quantity"}
    )


def test_the_resource_quota_declares_what_it_limits_by_request():
    found = a_quota(
        of={f"requests.{H100}": "4", f"limits.{L40}": "2", "gpu.cozystack.io/total": "3", "pods": 9}
    )
    assert found.declared == Declared(units={H100: 4, "gpu.cozystack.io/total": 3})


def test_a_config_maps_data_is_text():
    raw = {"metadata": {"name": "n", "namespace": "ns"}, "data": {"a": "b"}}
    assert config_maps.decode(raw).data == {"a": "b"}
    with pytest.raises(DecodeError, match=r"data\[a\]: is not a string"):
        config_maps.decode(raw | {"data": {"a": 1}})


def test_a_workload_keeps_amounts_as_text():
    found = workloads.decode(
        {
            "metadata": {"name": "n", "namespace": "ns"},
            "status": {"type": "gpu", "resources": {"a": 4, "b": "1Gi"}, "operational": True},
        }
    )
    assert (found.type, found.resources, found.operational) == ("gpu", {"a": "4", "b": "1Gi"}, True)
