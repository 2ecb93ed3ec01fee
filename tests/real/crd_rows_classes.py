"""Rows of GPUClass: every rule with one just inside and one just outside."""

from collections.abc import Mapping
from typing import Any, Final

from gpu.objects import kinds
from tests.real.crd_rows import CONDITION, RESOURCE, Row, Step, change, replace_status, status

NAME: Final = (
    "a class name becomes part of a quota key: use at most 63 lower case letters, digits and '-', "
    "and begin and end with a letter or digit"
)
TOTAL: Final = "'total' is the quota key of all classes together: choose another class name"
SHAPE: Final = (
    "write the extended resource name as <domain>/<name>, as in nvidia.com/GH100_H100_PCIE: a lower "
    "case domain, then at most 63 letters, digits, '-', '_' and '.'"
)
DOMAIN: Final = "the domain of an extended resource name has at most 244 characters"
OURS: Final = (
    "gpu.cozystack.io and its subdomains are reserved for quota keys: use the name that the device "
    "plugin serves"
)
NATIVE: Final = (
    "kubernetes.io and names that begin with 'requests.' are no extended resources: use the name "
    "that the device plugin serves"
)
DRA: Final = "source.dra is reserved for later: use source.devicePlugin.resourceName"
NO_SOURCE: Final = "name exactly one source: source.devicePlugin.resourceName"
SOURCE_STAYS: Final = (
    "source is immutable: create a new class with the other resource name and retire this one"
)
MODE_STAYS: Final = "mode is immutable: create a new class with the other mode and retire this one"
NO_KEY: Final = "a toleration without key matches every taint and needs operator Exists"
NO_VALUE: Final = "operator Exists takes no value: leave value out or use operator Equal"
SECONDS: Final = "tolerationSeconds needs effect NoExecute"
KEY: Final = (
    "a taint key is [<domain>/]<name>: a lower case domain, then at most 63 letters, digits, '-', "
    "'_' and '.'"
)
KEY_DOMAIN: Final = "the domain of a taint key has at most 253 characters"
VALUE: Final = "a taint value has letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
NO_STATUS: Final = "status may not be removed"
EFFECTS: Final = (
    'Unsupported value: "NoStart": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
)
DOMAIN_243: Final = ".".join(["a" * 60] * 4)
DOMAIN_253: Final = ".".join(["a" * 62] * 4) + "aa"
LONGEST: Final = {
    "key": DOMAIN_253 + "/" + "A" * 63,
    "operator": "Equal",
    "value": "v" * 63,
    "effect": "NoExecute",
    "tolerationSeconds": 2**63 - 1,
}

Refused = tuple[tuple[str, str], ...]
NAME_FIELD: Final = "spec.source.devicePlugin.resourceName"


def _row(title: str, given: Mapping[str, Any], *steps: Step, refused: Refused = ()) -> Row:
    return Row(title=title, kind=kinds.GPU_CLASSES, given=given, steps=steps, refused=refused)


def _named(name: str, *messages: str) -> Row:
    verdict = "refused" if messages else "accepted"
    return _row(
        f"a class named {name[:24]} ({len(name)}) is {verdict}",
        {"metadata": {"name": name}},
        refused=tuple(("metadata.name", message) for message in messages),
    )


def _resource(name: str, *messages: str) -> Row:
    verdict = "refused" if messages else "accepted"
    return _row(
        f"resource {name[:40]} ({len(name)}) is {verdict}",
        {"spec": {"source": {"devicePlugin": {"resourceName": name}}}},
        refused=tuple((NAME_FIELD, message) for message in messages),
    )


def _tolerates(title: str, toleration: Mapping[str, Any], *refused: tuple[str, str]) -> Row:
    at = "spec.tolerations[0]"
    return _row(
        title,
        {"spec": {"tolerations": [toleration]}},
        refused=tuple((f"{at}{field}", message) for field, message in refused),
    )


def _spec(title: str, spec: Mapping[str, Any], *refused: tuple[str, str]) -> Row:
    return _row(title, {"spec": spec}, refused=refused)


def _changed(title: str, spec: Mapping[str, Any], *refused: tuple[str, str]) -> Row:
    return _row(title, {}, change({"spec": spec}), refused=refused)


NAMES: Final = (
    _named("a" * 63),
    _named("a" * 64, NAME),
    _named("1g.10gb", NAME),
    _named("1g-10gb"),
    _named("total", TOTAL),
    _named("totals"),
)

RESOURCES: Final = (
    _resource(RESOURCE),
    _resource("nvidia.com/A100-40C.v_2"),
    _resource("example.com/" + "A" * 63),
    _resource("example.com/" + "A" * 64, SHAPE),
    _resource("example.com/A-", SHAPE),
    _resource("GH100_H100", SHAPE),
    _resource("NVIDIA.com/GH100", SHAPE),
    _resource("nvidia.com/GH100/H100", SHAPE),
    _resource("nvidia..com/GH100", SHAPE),
    _resource(DOMAIN_243 + "a/" + "A" * 63),
    _resource(DOMAIN_243 + "aa/A", DOMAIN),
    _resource("gpu.cozystack.io/h100", OURS),
    _resource("claim.gpu.cozystack.io/h100", OURS),
    _resource("mygpu.cozystack.io/h100"),
    _resource("gpu.cozystack.io.example.com/h100"),
    _resource("kubernetes.io/h100", NATIVE),
    _resource("requests.nvidia.com/h100", NATIVE),
    _resource("kubernetes.io.example.com/h100"),
    _resource("", SHAPE),
)

SOURCES: Final = (
    _row(
        "no source is refused",
        {"spec": {"source": None}},
        refused=(("spec.source", "Required value"),),
    ),
    _row(
        "an empty source is refused",
        {"spec": {"source": {"devicePlugin": None}}},
        refused=(("spec.source", NO_SOURCE),),
    ),
    _row(
        "source dra is refused",
        {"spec": {"source": {"devicePlugin": None, "dra": {}}}},
        refused=(("spec.source", DRA),),
    ),
    _row(
        "two sources are refused",
        {"spec": {"source": {"dra": {}}}},
        refused=(("spec.source", DRA),),
    ),
    _row(
        "a device plugin without resource name is refused",
        {"spec": {"source": {"devicePlugin": {"resourceName": None}}}},
        refused=((NAME_FIELD, "Required value"),),
    ),
    _changed(
        "the same source again is accepted",
        {"source": {"devicePlugin": {"resourceName": RESOURCE}}},
    ),
    _changed(
        "another resource name is refused",
        {"source": {"devicePlugin": {"resourceName": "a.b/c"}}},
        ("spec.source", SOURCE_STAYS),
    ),
)
MODES: Final = (
    _spec("mode vgpu is accepted", {"mode": "vgpu"}),
    _spec(
        "mode mig is refused",
        {"mode": "mig"},
        ("spec.mode", 'Unsupported value: "mig": supported values: "passthrough", "vgpu"'),
    ),
    _spec("no mode is refused", {"mode": None}, ("spec.mode", "Required value")),
    _changed("the same mode again is accepted", {"mode": "passthrough"}),
    _changed("another mode is refused", {"mode": "vgpu"}, ("spec.mode", MODE_STAYS)),
    _row("a class without spec is refused", {"spec": None}, refused=(("spec", "Required value"),)),
)
FIELDS: Final = (
    _spec("maxCount 1 is accepted", {"maxCount": 1}),
    _spec(
        "maxCount 0 is refused",
        {"maxCount": 0},
        ("spec.maxCount", "should be greater than or equal to 1"),
    ),
    _spec("maxCount 2^31-1 is accepted", {"maxCount": 2**31 - 1}),
    _spec(
        "maxCount 2^31 is refused",
        {"maxCount": 2**31},
        ("spec.maxCount", "should be less than or equal to 2147483647"),
    ),
    _spec("onCordon Stay is accepted", {"onCordon": "Stay"}),
    _spec(
        "onCordon Evict is refused",
        {"onCordon": "Evict"},
        ("spec.onCordon", 'Unsupported value: "Evict": supported values: "Move", "Stay"'),
    ),
    _spec("a title of 128 characters is accepted", {"displayName": "é" * 128}),
    _spec(
        "a title of 129 characters is refused",
        {"displayName": "é" * 129},
        ("spec.displayName", "Too long: may not be more than 128 bytes"),
    ),
    _spec("a description of 1024 characters is accepted", {"description": "d" * 1024}),
    _spec(
        "a description of 1025 characters is refused",
        {"description": "d" * 1025},
        ("spec.description", "Too long: may not be more than 1024 bytes"),
    ),
    _spec(
        "retired in words is refused",
        {"retired": "yes"},
        ("spec.retired", 'in body must be of type boolean: "string"'),
    ),
    _changed(
        "all else of a class may change",
        {
            "maxCount": 4,
            "onCordon": "Stay",
            "retired": True,
            "displayName": "x",
            "description": "y",
            "tolerations": [{"operator": "Exists"}],
        },
    ),
)
TOLERATIONS: Final = (
    _tolerates("a toleration of everything is accepted", {"operator": "Exists"}),
    _tolerates("a toleration of nothing is refused", {}, ("", NO_KEY)),
    _tolerates(
        "an empty key with Equal is refused", {"key": "", "operator": "Equal"}, ("", NO_KEY)
    ),
    _tolerates("a key without operator is accepted", {"key": "a", "value": "b"}),
    _tolerates(
        "Exists with a value is refused",
        {"key": "a", "operator": "Exists", "value": "b"},
        ("", NO_VALUE),
    ),
    _tolerates("Exists with an empty value is accepted", {"operator": "Exists", "value": ""}),
    _tolerates(
        "operator Gt is refused",
        {"key": "a", "operator": "Gt", "value": "1"},
        (".operator", 'Unsupported value: "Gt": supported values: "Exists", "Equal"'),
    ),
    _tolerates(
        "NoExecute for a while is accepted",
        {"key": "a", "effect": "NoExecute", "tolerationSeconds": 0},
    ),
    _tolerates(
        "a while without effect is refused", {"key": "a", "tolerationSeconds": 1}, ("", SECONDS)
    ),
    _tolerates(
        "a while with NoSchedule is refused",
        {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1},
        ("", SECONDS),
    ),
    _tolerates(
        "effect NoStart is refused", {"key": "a", "effect": "NoStart"}, (".effect", EFFECTS)
    ),
    _tolerates("a key name of 63 is accepted", {"key": "a.b/" + "A" * 63}),
    _tolerates("a key name of 64 is refused", {"key": "a.b/" + "A" * 64}, (".key", KEY)),
    _tolerates("a key domain of 253 is accepted", {"key": DOMAIN_253 + "/a"}),
    _tolerates("a key domain of 254 is refused", {"key": DOMAIN_253 + "a/a"}, (".key", KEY_DOMAIN)),
    _tolerates("a key with a space is refused", {"key": "a b"}, (".key", KEY)),
    _tolerates("a value of 63 is accepted", {"key": "a", "value": "v" * 63}),
    _tolerates(
        "a value of 64 is refused",
        {"key": "a", "value": "v" * 64},
        (".value", "Too long: may not be more than 63 bytes"),
    ),
    _tolerates(
        "a value that begins with a dash is refused", {"key": "a", "value": "-v"}, (".value", VALUE)
    ),
    _spec("32 of the longest tolerations are accepted", {"tolerations": [LONGEST] * 32}),
    _spec(
        "33 tolerations are refused",
        {"tolerations": [LONGEST] * 33},
        ("spec.tolerations", "Too many: 33: must have at most 32 items"),
    ),
)
STATUSES: Final = (
    _row(
        "a status is accepted",
        {},
        status(
            {
                "observedGeneration": 1,
                "capacity": 8,
                "allocatable": 8,
                "held": 8,
                "free": 0,
                "nodes": ["n1"],
                "nodeCount": 1,
                "conditions": [CONDITION],
            }
        ),
    ),
    _row(
        "free units below zero are refused",
        {},
        status({"free": -1}),
        refused=(("status.free", "should be greater than or equal to 0"),),
    ),
    _row(
        "two conditions of a type are refused",
        {},
        status({"conditions": [CONDITION, CONDITION]}),
        refused=(("status.conditions[1]", 'Duplicate value: {"type":"Ready"}'),),
    ),
    _row(
        "a condition without reason is refused",
        {},
        status({"conditions": [{**CONDITION, "reason": ""}]}),
        refused=(("status.conditions[0].reason", "should be at least 1 chars long"),),
    ),
    _row(
        "512 of the longest node names are accepted",
        {},
        status({"nodes": [f"{i:0253d}" for i in range(512)], "nodeCount": 600}),
    ),
    _row(
        "513 nodes are refused",
        {},
        status({"nodes": [f"n{i}" for i in range(513)]}),
        refused=(("status.nodes", "Too many: 513: must have at most 512 items"),),
    ),
    _row(
        "a node twice is refused",
        {},
        status({"nodes": ["n1", "n1"]}),
        refused=(("status.nodes[1]", 'Duplicate value: "n1"'),),
    ),
    _row(
        "a class's status cannot be patched away",
        {},
        status({"free": 1}),
        status(None),
        refused=(("status", NO_STATUS),),
    ),
    _row(
        "a class's status cannot be replaced by none",
        {},
        status({"free": 1}),
        replace_status(None),
        refused=(("status", NO_STATUS),),
    ),
)
ROWS: Final = NAMES + RESOURCES + SOURCES + MODES + FIELDS + TOLERATIONS + STATUSES
