"""Rows of GPUNode and GPUBinder."""

from collections.abc import Mapping
from typing import Any, Final

from gpu.objects import kinds
from tests.real.crd_rows import CONDITION, WHEN, Row, Step, replace_status, status

NO_STATUS: Final = "status may not be removed"
ONE_BINDER: Final = "there is one GPUBinder: name it binder"
NO_TERM: Final = "status.term may not be removed"
TERM_BACK: Final = "term may not go back: a new leader takes the next higher one"

DEVICE: Final = {
    "id": "0000:17:00.0",
    "pciAddress": "0000:17:00.0",
    "vendorID": "10de",
    "deviceID": "2331",
    "model": "GH100 [H100 PCIe]",
    "driver": "vfio-pci",
    "mode": "passthrough",
    "healthy": True,
    "numaNode": 0,
    "resourceName": "nvidia.com/GH100_H100",
    "units": 1,
}
LARGEST: Final = {
    **DEVICE,
    "model": "m" * 128,
    "driver": "d" * 64,
    "mode": "vgpu",
    "profile": "p" * 128,
    "resourceName": "r" * 308,
    "units": 32,
    "heldBy": [f"{i:036d}" for i in range(32)],
}

Refused = tuple[tuple[str, str], ...]


def _node(title: str, *steps: Step, refused: Refused = ()) -> Row:
    return Row(title=title, kind=kinds.GPU_NODES, steps=steps, refused=refused)


def _device(title: str, field: str, value: object, *messages: str) -> Row:
    return _node(
        title,
        status({"devices": [{**DEVICE, field: value}]}),
        refused=tuple((f"status.devices[0].{field}", message) for message in messages),
    )


def _binder(title: str, given: Mapping[str, Any], *steps: Step, refused: Refused = ()) -> Row:
    return Row(title=title, kind=kinds.GPU_BINDERS, given=given, steps=steps, refused=refused)


NODES: Final = (
    _node("an inventory is accepted", status({"devices": [DEVICE], "observedAt": WHEN})),
    _node(
        "384 of the largest devices are accepted",
        status({"devices": [{**LARGEST, "id": f"{i:0128d}"} for i in range(384)]}),
    ),
    _node(
        "385 devices are refused",
        status({"devices": [{"id": f"d{i}"} for i in range(385)]}),
        refused=(("status.devices", "Too many: 385: must have at most 384 items"),),
    ),
    _node(
        "a device twice is refused",
        status({"devices": [DEVICE, DEVICE]}),
        refused=(("status.devices[1]", 'Duplicate value: {"id":"0000:17:00.0"}'),),
    ),
    _node(
        "a device without id is refused",
        status({"devices": [{"model": "m"}]}),
        refused=(("status.devices[0].id", "Required value"),),
    ),
    _device(
        "a PCI function 8 is refused",
        "pciAddress",
        "0000:17:00.8",
        "should match '^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}[.][0-7]$'",
    ),
    _device("a PCI domain of 8 digits is accepted", "pciAddress", "10000000:17:00.7"),
    _device("a vendor with 0x is refused", "vendorID", "0x10de", "should match '^[0-9a-f]{4}$'"),
    _device(
        "a device id of 3 digits is refused", "deviceID", "233", "should match '^[0-9a-f]{4}$'"
    ),
    _device(
        "mode mig of a device is refused",
        "mode",
        "mig",
        'Unsupported value: "mig": supported values: "passthrough", "vgpu"',
    ),
    _device("no NUMA node is accepted", "numaNode", -1),
    _device("NUMA node -2 is refused", "numaNode", -2, "should be greater than or equal to -1"),
    _device("a device that serves nothing is accepted", "units", 0),
    _device("units below zero are refused", "units", -1, "should be greater than or equal to 0"),
    _node(
        "derived units are accepted",
        status({"resources": [{"name": "a.b/c", "held": 0, "free": 8}], "held": 0, "free": 8}),
    ),
    _node(
        "a resource twice is refused",
        status({"resources": [{"name": "a.b/c"}, {"name": "a.b/c"}]}),
        refused=(("status.resources[1]", 'Duplicate value: {"name":"a.b/c"}'),),
    ),
    _node(
        "held units below zero are refused",
        status({"resources": [{"name": "a.b/c", "held": -1}]}),
        refused=(("status.resources[0].held", "should be greater than or equal to 0"),),
    ),
    _node(
        "a node's status cannot be patched away",
        status({"devices": [DEVICE]}),
        status(None),
        refused=(("status", NO_STATUS),),
    ),
    _node("an inventory may become empty", status({"devices": [DEVICE]}), status({"devices": []})),
)

BINDERS: Final = (
    _binder("the binder is accepted", {}),
    _binder("the binder with an empty spec is accepted", {"spec": {}}),
    _binder(
        "another binder is refused",
        {"metadata": {"name": "binder-2"}},
        refused=(("metadata.name", ONE_BINDER),),
    ),
    _binder(
        "a status of the binder is accepted",
        {},
        status(
            {
                "term": 1,
                "holder": "cozystack-gpu-0",
                "holderSince": WHEN,
                "settings": {
                    "resourceNames": ["a.b/c", "a.b/d"],
                    "rawResourceNames": "denied",
                    "configMap": "cozystack-gpu-settings",
                },
                "conditions": [{**CONDITION, "type": "Leading"}],
            }
        ),
    ),
    _binder("a higher term is taken", {}, status({"term": 1}), status({"term": 2})),
    _binder("the same term stays", {}, status({"term": 2}), status({"term": 2, "holder": "b"})),
    _binder(
        "a lower term is refused",
        {},
        status({"term": 2}),
        status({"term": 1}),
        refused=(("status.term", TERM_BACK),),
    ),
    _binder(
        "the first term is not 0",
        {},
        status({"term": 0}),
        refused=(("status.term", "should be greater than or equal to 1"),),
    ),
    _binder(
        "the term cannot be dropped",
        {},
        status({"term": 2}),
        status({"term": None}),
        refused=(("status", NO_TERM),),
    ),
    _binder(
        "the binder's status cannot be patched away",
        {},
        status({"term": 2}),
        status(None),
        refused=(("status", NO_STATUS),),
    ),
    _binder(
        "the binder's status cannot be replaced by none",
        {},
        status({"term": 2}),
        replace_status(None),
        refused=(("status", NO_STATUS),),
    ),
    _binder(
        "raw names half allowed are refused",
        {},
        status({"settings": {"rawResourceNames": "some"}}),
        refused=(
            (
                "status.settings.rawResourceNames",
                'Unsupported value: "some": supported values: "allowed", "denied"',
            ),
        ),
    ),
)
ROWS: Final = NODES + BINDERS
