"""Does a pod fit a node: asked of objects as stored, naively, one rule after the other.

Written from the documentation of Kubernetes alone; nothing of gpu.model is used.
"""

from decimal import Decimal
from typing import Any

Raw = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def fits(pod: Raw, node: Raw, cluster: Raw, tolerations: list[Raw]) -> bool:
    """`cluster` has nodes, pods, namespaces, claims and volumes as lists."""
    return (
        _tolerates(node, [*pod["spec"].get("tolerations", []), *tolerations])
        and _selected(pod, node)
        and _reached(pod, node, cluster)
        and _has_room(pod, node, cluster)
        and _has_ports(pod, node, cluster)
        and _takes_volumes(pod, node, cluster)
        and _company(pod, node, cluster)
    )


def _labels(item: Raw) -> dict[str, str]:
    return item["metadata"].get("labels", {})


def _tolerates(node: Raw, tolerations: list[Raw]) -> bool:
    taints = list(node["spec"].get("taints", []))
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    for taint in taints:
        if taint["effect"] == "PreferNoSchedule":
            continue
        found = False
        for it in tolerations:
            same_effect = not it.get("effect") or it["effect"] == taint["effect"]
            if it.get("operator") == "Exists":
                same = not it.get("key") or it["key"] == taint["key"]
            else:
                same = it.get("key") == taint["key"]
                same = same and it.get("value", "") == taint.get("value", "")
            found = found or (same and same_effect)
        if not found:
            return False
    return True


def _meets(expressions: list[Raw], labels: dict[str, str]) -> bool:
    for it in expressions:
        key, values, there = it["key"], it.get("values", []), it["key"] in labels
        if it["operator"] == "In":
            ok = there and labels[key] in values
        elif it["operator"] == "NotIn":
            ok = not there or labels[key] not in values
        elif it["operator"] == "Exists":
            ok = there
        elif it["operator"] == "DoesNotExist":
            ok = not there
        elif not there or not labels[key].lstrip("-").isdigit():
            ok = False
        elif it["operator"] == "Gt":
            ok = int(labels[key]) > int(values[0])
        else:
            ok = int(labels[key]) < int(values[0])
        if not ok:
            return False
    return True


def _any_term(terms: list[Raw], node: Raw) -> bool:
    for term in terms:
        expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
        if not expressions and not fields:
            continue
        name = {"metadata.name": node["metadata"]["name"]}
        if _meets(expressions, _labels(node)) and _meets(fields, name):
            return True
    return False


def _selected(pod: Raw, node: Raw) -> bool:
    for key, value in pod["spec"].get("nodeSelector", {}).items():
        if _labels(node).get(key) != value:
            return False
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    return required is None or _any_term(required["nodeSelectorTerms"], node)


def _reached(pod: Raw, node: Raw, cluster: Raw) -> bool:
    for source in pod["spec"].get("volumes", []):
        if "persistentVolumeClaim" not in source:
            continue
        wanted = (pod["metadata"]["namespace"], source["persistentVolumeClaim"]["claimName"])
        claims = [
            it
            for it in cluster["claims"]
            if (it["metadata"]["namespace"], it["metadata"]["name"]) == wanted
        ]
        if not claims or "deletionTimestamp" in claims[0]["metadata"]:
            return False
        if "ReadWriteOncePod" in claims[0]["spec"].get("accessModes", []):
            elsewhere = [
                it
                for other in cluster["nodes"]
                for it in _there(other["metadata"]["name"], pod, cluster)
                if it["metadata"]["namespace"] == wanted[0] and source in it["spec"]["volumes"]
            ]
            if elsewhere:
                return False
        bound = claims[0]["spec"].get("volumeName")
        if not bound:
            if claims[0]["spec"].get("storageClassName") != "late":
                return False
            continue
        volumes = [it for it in cluster["volumes"] if it["metadata"]["name"] == bound]
        if not volumes:
            return False
        required = volumes[0]["spec"].get("nodeAffinity", {}).get("required")
        if required is not None and not _any_term(required["nodeSelectorTerms"], node):
            return False
    return True


def _amount(text: str) -> Decimal:
    for suffix, factor in (("Gi", 2**30), ("Mi", 2**20), ("m", Decimal("0.001"))):
        if text.endswith(suffix):
            return Decimal(text.removesuffix(suffix)) * factor
    return Decimal(text)


def _asks(pod: Raw, name: str) -> Decimal:
    spec = pod["spec"]

    def of(container: Raw) -> Decimal:
        return _amount(container.get("resources", {}).get("requests", {}).get(name, "0"))

    first = spec.get("initContainers", [])
    sidecars = [it for it in first if it.get("restartPolicy") == "Always"]
    moments = [sum(map(of, [*spec["containers"], *sidecars]), Decimal(0))]
    for at, container in enumerate(first):
        before = [it for it in first[:at] if it in sidecars]
        moments.append(sum(map(of, before), Decimal(0)) + of(container))
    return max(moments) + _amount(spec.get("overhead", {}).get(name, "0"))


def _there(node: str, pod: Raw, cluster: Raw) -> list[Raw]:
    """Pods on a node or pinned to it by the leader, but for the one that is asked about."""
    found = []
    for it in cluster["pods"]:
        if it["metadata"]["uid"] == pod["metadata"]["uid"]:
            continue
        if it["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        place = it["spec"].get("nodeName")
        marks = it["metadata"].get("annotations", {})
        ours = "gpu.cozystack.io/term" in marks and not it["spec"].get("schedulingGates")
        if place is None and ours:
            terms = it["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
            place = terms[0]["matchFields"][0]["values"][0]
        if place == node:
            found.append(it)
    return found


def _has_room(pod: Raw, node: Raw, cluster: Raw) -> bool:
    there = _there(node["metadata"]["name"], pod, cluster)
    has = node["status"]["allocatable"]
    if len(there) + 1 > int(has["pods"]):
        return False
    for name in ("cpu", "memory", "example.com/nic"):
        asked = _asks(pod, name)
        if asked and asked + sum(_asks(it, name) for it in there) > _amount(has.get(name, "0")):
            return False
    return True


def _attached(pod: Raw, cluster: Raw) -> set[str]:
    named = {it["persistentVolumeClaim"]["claimName"] for it in pod["spec"].get("volumes", [])}
    return {
        it["spec"].get("volumeName") or f"{it['metadata']['namespace']} {it['metadata']['name']}"
        for it in cluster["claims"]
        if it["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and it["metadata"]["name"] in named
    }


def _takes_volumes(pod: Raw, node: Raw, cluster: Raw) -> bool:
    """All volumes are of one driver."""
    name = node["metadata"]["name"]
    there = set().union(*(_attached(it, cluster) for it in _there(name, pod, cluster)))
    new = _attached(pod, cluster) - there
    for it in cluster["csi_nodes"]:
        if it["metadata"]["name"] == name and new:
            return len(there | new) <= it["spec"]["drivers"][0]["allocatable"]["count"]
    return True


def _ports(pod: Raw) -> list[Raw]:
    first = [it for it in pod["spec"].get("initContainers", []) if "restartPolicy" in it]
    every = [it for one in [*pod["spec"]["containers"], *first] for it in one.get("ports", [])]
    return [it for it in every if "hostPort" in it]


def _has_ports(pod: Raw, node: Raw, cluster: Raw) -> bool:
    for other in _there(node["metadata"]["name"], pod, cluster):
        for taken in _ports(other):
            for it in _ports(pod):
                same = it["hostPort"] == taken["hostPort"]
                protocols = {one.get("protocol", "TCP") for one in (it, taken)}
                addresses = {one.get("hostIP", "0.0.0.0") for one in (it, taken)}
                if same and len(protocols) == 1 and (len(addresses) == 1 or "0.0.0.0" in addresses):
                    return False
    return True


def _terms(pod: Raw, part: str) -> list[Raw]:
    found: list[Raw] = pod["spec"].get("affinity", {}).get(part, {}).get(REQUIRED, [])
    return found


def _about(term: Raw, owner: Raw, other: Raw, cluster: Raw) -> bool:
    namespace = other["metadata"]["namespace"]
    names, selector = term.get("namespaces", []), term.get("namespaceSelector")
    if not names and selector is None:
        where = namespace == owner["metadata"]["namespace"]
    else:
        labels = next(
            _labels(it) for it in cluster["namespaces"] if it["metadata"]["name"] == namespace
        )
        where = namespace in names or (selector is not None and _selects(selector, labels))
    return where and "labelSelector" in term and _selects(term["labelSelector"], _labels(other))


def _selects(selector: Raw, labels: dict[str, str]) -> bool:
    same = all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())
    return same and _meets(selector.get("matchExpressions", []), labels)


def _company(pod: Raw, node: Raw, cluster: Raw) -> bool:
    """Look at each pod of each node that is one place with this one."""
    kin = []
    for other in cluster["nodes"]:
        for it in _there(other["metadata"]["name"], pod, cluster):
            for term in _terms(pod, "podAntiAffinity"):
                if _one_place(node, other, term) and _about(term, pod, it, cluster):
                    return False
            for term in _terms(it, "podAntiAffinity"):
                if _one_place(node, other, term) and _about(term, it, pod, cluster):
                    return False
            near = _terms(pod, "podAffinity")
            if near and all(_about(term, pod, it, cluster) for term in near):
                kin.append(other)
    near = _terms(pod, "podAffinity")
    if any(term["topologyKey"] not in _labels(node) for term in near):
        return False
    in_some_place = [it for it in kin if any(term["topologyKey"] in _labels(it) for term in near)]
    if not in_some_place and all(_about(term, pod, pod, cluster) for term in near):
        return True
    return all(any(_one_place(node, it, term) for it in kin) for term in near)


def _one_place(node: Raw, other: Raw, term: Raw) -> bool:
    key = term["topologyKey"]
    return key in _labels(node) and _labels(node)[key] == _labels(other).get(key)
