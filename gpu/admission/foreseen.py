"""The launcher that a VMI will have, as far as a node is asked for it: worked out before the VMI is there; pure.

Under `binding: request` the leader chooses a node before KubeVirt renders the launcher, and the VMI is pinned
there for good. Labels, selectors, affinities, tolerations and volumes are the VMI's own and what virt-controller
1.8.4 adds to them; amounts are `foreseen_amounts`.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from gpu.admission import foreseen_amounts, vmis
from gpu.admission.review import FORBIDDEN, Cause, Denied, Review
from gpu.errors import DecodeError
from gpu.model import gate_reasons, misfits
from gpu.model.misfits import Misfit
from gpu.objects import foreseen, kubevirt, volumes
from gpu.objects.decode import Fields, Raw
from gpu.objects.launching import Launching
from gpu.objects.nodes import Node
from gpu.objects.pods import LAUNCHER_LABEL, LAUNCHER_VALUE
from gpu.world import World

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SCHEDULABLE: Final = "kubevirt.io/schedulable"
_ARCHITECTURE: Final = "kubernetes.io/arch"
_MACHINE: Final = "machine-type.node.kubevirt.io/"
_MODEL: Final = "cpu-model.node.kubevirt.io/"
_FEATURE: Final = "cpu-feature.node.kubevirt.io/"
_OBSOLETE: Final = "node-labeller.kubevirt.io/obsolete-host-model"
_DEDICATED: Final = "kubevirt.io/cpumanager"
_REALTIME: Final = "kubevirt.io/realtime"
_SECRECY: Final = {"sev": "kubevirt.io/sev", "snp": "kubevirt.io/sev-snp", "tdx": "kubevirt.io/tdx"}
_OF_HOST: Final = frozenset({"host-model", "host-passthrough"})
_AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
Selector = dict[str, str]
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


def launcher(asked: Review, world: World, networks: Mapping[str, int] = _NONE) -> str | Denied:
    """Return what the launcher of a VMI will ask of its node, as a bind request carries it, or a denial.

    `networks`: units of each resource that its networks ask for.
    """
    config = next((item.launching for item in world.kubevirts), Launching())
    vmi = Fields(asked.object)
    try:
        amounts = foreseen_amounts.amounts(vmi, config, networks)
        spec = _spec(vmi, config, world.nodes, amounts)
        spec |= _volumes(vmi, asked, world)
        text = foreseen.format_launcher(_labels(vmi, asked.name), spec)
        foreseen.read(text, asked.namespace, "")  # what the leader cannot read it would not ask
    except DecodeError as error:
        return vmis.unread(asked, str(error))
    return text if len(text) <= foreseen.LONGEST else _too_long(asked)


def _too_long(asked: Review) -> Denied:
    reason = gate_reasons.PodFitsNowhere((Misfit(cause=misfits.Cause.TOO_HEAVY),))
    said = (
        "its labels, selectors, affinities and tolerations are longer than the "
        f"{foreseen.LONGEST} characters that are looked at: shorten them"
    )
    return Denied(
        code=FORBIDDEN,
        reason="Forbidden",
        message=f"VM {asked.title}: {said}",
        causes=(Cause("spec", gate_reasons.code(reason), said),),
        about=vmis.about(asked),
    )


def _labels(vmi: Fields, name: str) -> Mapping[str, str]:
    own = vmi.child("metadata").text_map("labels")
    return {**own, LAUNCHER_LABEL: LAUNCHER_VALUE, "vm.kubevirt.io/name": name}


def _spec(
    vmi: Fields, config: Launching, nodes: Iterable[Node], amounts: Mapping[str, int]
) -> dict[str, Any]:
    spec = vmi.child("spec")
    requests = {
        name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()
    }
    found: dict[str, Any] = {
        "containers": [{"resources": {"requests": requests}}],
        "nodeSelector": _selector(spec, config, tuple(nodes)),
        "affinity": _affinity(spec, config),
        "tolerations": [item.raw for item in spec.children("tolerations")],
    }
    return {name: value for name, value in found.items() if value}


# Volumes.


def _volumes(vmi: Fields, asked: Review, world: World) -> dict[str, Any]:
    names = dict.fromkeys(kubevirt.volume_claims(vmi.child("spec")))
    state = _state(asked, world.volume_claims) if kubevirt.keeps_state(vmi) else ""
    if state:
        names[state] = None
    found = [{"persistentVolumeClaim": {"claimName": name}} for name in names]
    return {"volumes": found} if found else {}


def _state(asked: Review, claims: Iterable[volumes.Claim]) -> str:
    """Return the claim that KubeVirt keeps a VMI's state in; empty before its first start, which makes it.

    As `PVCForVMI` of KubeVirt 1.8.4 finds it: by its label, else by the name that it had of old.
    """
    of_old = f"{volumes.STATE}-{asked.name}"
    found = [
        (claim.state_of != asked.name, claim.meta.name)
        for claim in claims
        if claim.meta.namespace == asked.namespace
        and not claim.meta.deleting
        and (claim.state_of == asked.name or claim.meta.name == of_old)
    ]
    return min(found)[1] if found else ""


# Labels of nodes.


def _selector(spec: Fields, config: Launching, nodes: tuple[Node, ...]) -> Selector:
    architecture = spec.text_or("architecture") or config.architecture
    return {
        _SCHEDULABLE: "true",
        **({_ARCHITECTURE: architecture.lower()} if architecture else {}),
        **config.selector,
        **spec.text_map("nodeSelector"),
        **dict.fromkeys(_of_cpu(spec, config), "true"),
        **{label: "true" for label in _of_host(spec) if _is_known(label, nodes)},
    }


def _model(spec: Fields, config: Launching) -> str:
    return spec.child("domain").child("cpu").text_or("model") or config.cpu_model


def _of_cpu(spec: Fields, config: Launching) -> Iterator[str]:
    """Yield what the guest's CPU asks for."""
    model = _model(spec, config)
    if model and model not in _OF_HOST:
        yield f"{_MODEL}{model}"
    for feature in spec.child("domain").child("cpu").children("features"):
        if feature.text_or("policy") in {"", "require"}:
            yield f"{_FEATURE}{feature.text_or('name')}"


def _of_host(spec: Fields) -> Iterator[str]:
    """Yield labels by which KubeVirt marks hosts that can do something."""
    domain = spec.child("domain")
    machine = domain.child("machine").text_or("type")
    if machine:
        yield f"{_MACHINE}{machine}"
    if domain.child("cpu").flag("dedicatedCpuPlacement"):
        yield _DEDICATED
    if domain.child("cpu").has("realtime"):
        yield _REALTIME
    for name, label in _SECRECY.items():
        if domain.child("launchSecurity").has(name):
            yield label


def _is_known(label: str, nodes: Iterable[Node]) -> bool:
    """Say whether any node has a label: releases of KubeVirt differ in the marks that they know."""
    return any(label in node.meta.labels for node in nodes)


# Affinities.


def _affinity(spec: Fields, config: Launching) -> Raw:
    own = spec.child("affinity")
    found: dict[str, Any] = {}
    for name in _AFFINITIES:
        required = own.child(name).raw.get(_REQUIRED)
        if required:
            found[name] = {_REQUIRED: required}
    unwanted = [{"key": label, "operator": "DoesNotExist"} for label in _unwanted(spec, config)]
    if unwanted:
        required = own.child("nodeAffinity").child(_REQUIRED)
        terms = [item.raw for item in required.children("nodeSelectorTerms")]
        found["nodeAffinity"] = {
            _REQUIRED: {
                "nodeSelectorTerms": [
                    {**term, "matchExpressions": [*_expressions(term), *unwanted]}
                    for term in terms or [{}]
                ]
            }
        }
    return found


def _expressions(term: Raw) -> Iterator[Any]:
    yield from (item.raw for item in Fields(term).children("matchExpressions"))


def _unwanted(spec: Fields, config: Launching) -> Iterator[str]:
    """Yield labels that no node may have: virt-controller adds each to every term."""
    if _model(spec, config) in {"", "host-model"}:
        yield _OBSOLETE
    features = spec.child("domain").child("cpu").children("features")
    yield from (
        f"{_FEATURE}{feature.text_or('name')}"
        for feature in features
        if feature.text_or("policy") == "forbid"
    )
