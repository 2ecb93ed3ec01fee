"""Reviews of VMIs and launchers, and a JSON Patch applied, for tests of the webhooks of a start."""

import base64
import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu import keys
from gpu.admission import review
from gpu.admission.review import Review
from gpu.config import Config
from gpu.objects import kinds

Json = dict[str, Any]
KUBEVIRT = Config().kubevirt_controller_user


def gpu(device: str, name: str = "g", **more: Any) -> Json:
    return {"name": name, "deviceName": device, **more}


def claim(named: str, /, **more: Any) -> Json:
    return gpu(f"{keys.CLAIM_DEVICE_PREFIX}{named}", **more)


def unit(class_name: str = "h100", /, **more: Any) -> Json:
    return gpu(f"{keys.CLASS_DEVICE_PREFIX}{class_name}", **more)


def a_vmi(
    name: str = "vm",
    *,
    gpus: Iterable[Mapping[str, Any]] | None = (),
    hosts: Iterable[Mapping[str, Any]] = (),
    listed: str | None = None,
    annotations: Mapping[str, str] | None = None,
    resources: Mapping[str, Any] | None = None,
    tenant: str = "tenant-a",
) -> Json:
    """A VMI as its VM's controller sends it; without a name it has a generateName."""
    devices: Json = {}
    if gpus:
        devices["gpus"] = list(gpus)
    if found := list(hosts):
        devices["hostDevices"] = found
    domain: Json = {"devices": devices} if devices else {}
    if resources:
        domain["resources"] = resources
    marks = dict(annotations or {})
    if listed is not None:
        marks[keys.CLAIMS_ANNOTATION] = listed
    meta: Json = {"namespace": tenant} | ({"name": name} if name else {"generateName": "vm-"})
    if marks:
        meta["annotations"] = marks
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": meta,
        "spec": {"domain": domain},
    }


def request(body: Json, kind: kinds.Kind = kinds.VMIS, user: str = KUBEVIRT, **more: Any) -> Json:
    """The request of a review of an object's CREATE; `more` are members of it."""
    return {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"group": kind.group, "kind": kind.kind},
        "resource": {"group": kind.group, "resource": kind.plural},
        "name": body["metadata"].get("name", ""),
        "namespace": body["metadata"]["namespace"],
        "userInfo": {"username": user},
        "object": body,
        **more,
    }


def asked(body: Json, **more: Any) -> Review:
    return review.decode(request(body, **more))


def patched(body: Json, operations: Sequence[Mapping[str, Any]]) -> Json:
    """Apply operations as the API server does: parents must be there, `remove` needs a member."""
    found = copy.deepcopy(body)
    for one in operations:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in _parts(one["path"]))
        parent: Any = found
        for name in way:
            parent = parent[name]
        assert isinstance(parent, dict), one
        if one["op"] == "remove":
            del parent[last]
        else:
            assert one["op"] == "add", one
            parent[last] = copy.deepcopy(one["value"])
    return found


def answered(body: Json, response: Mapping[str, Any]) -> Json:
    """Return the object as a response to its review leaves it."""
    assert response["allowed"], response
    text = response.get("patch")
    return patched(body, json.loads(base64.b64decode(text)) if text else [])


def devices(body: Json, place: str = "gpus") -> list[tuple[str, str]]:
    """Names and device names of the entries of a VMI."""
    found = body["spec"]["domain"].get("devices", {}).get(place) or []
    return [(one.get("name", ""), one.get("deviceName", "")) for one in found]


def record(body: Json) -> Any:
    """Return what the webhook recorded, None where nothing is recorded."""
    text = body["metadata"].get("annotations", {}).get(keys.RESOLVED_CLAIMS_ANNOTATION)
    return None if text is None else json.loads(text)


def _parts(path: str) -> list[str]:
    return path.split("/")[1:]
