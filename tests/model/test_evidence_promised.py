"""Evidence of starts that were promised a node (`binding: request`): no leader need have seen their launcher."""

from dataclasses import replace
from typing import Any

import pytest

from gpu import keys
from gpu.model import attaching, guests, reach
from gpu.model.sets import ClaimSet
from gpu.model.sightings import Sightings
from gpu.model.signs import UNSEEN, Lack
from gpu.model.template_claims import owner
from gpu.objects.claims import AttachedPod, BindRequest, BindResult
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import LAUNCHER_LABEL, LAUNCHER_VALUE, MIGRATION_LABEL, Pod
from tests.builders import START, a_pod, a_snapshot, a_vmi
from tests.model.witnessed import PINNED, a_lack, a_user, a_witness, look

LAUNCHER = {LAUNCHER_LABEL: LAUNCHER_VALUE}
TARGET = LAUNCHER | {MIGRATION_LABEL: "job"}
STARTS = a_lack(Lack.START_PENDING, pod="")


def a_promised(**attached: Any):
    """A claim whose VMI was granted its node before it was there."""
    asked = BindRequest(id="r1", vmi="vm", claims=("c",), requested_at=START)
    return replace(a_user(**attached), bind_request=replace(asked, result=BindResult.SUCCEEDED))


def a_launcher(labels: Any = LAUNCHER, **more: Any) -> Pod:
    """A launcher that a webhook pinned to n1 for VMI vmi-1, which nobody has noted."""
    pod = a_pod(**{"uid": "q", "on": "n1", "pinned": "n1", **more})
    return replace(pod, meta=replace(pod.meta, labels=labels, owners=(owner(a_vmi(uid="vmi-1")),)))


def known(seen) -> tuple[Any, ...]:
    """What is lacking but for what `test_evidence_unseen` is about."""
    return tuple(one for one in seen.missing if not one.pod.startswith(UNSEEN))


# Its VMI is there.


@pytest.mark.parametrize(
    ("claim", "vmi"),
    [
        (a_promised(pods={}), a_vmi(uid="vmi-1", phase="Pending")),
        (a_promised(ended={"p"}), a_vmi(uid="vmi-1", phase="Scheduling", active={"p": "n1"})),
    ],
    ids=["no pod yet", "the temporary pod for a volume is over"],
)
def test_a_launcher_is_still_to_come(claim, vmi):
    seen = look(claim, Sightings(), vmis=[vmi])
    assert (seen.missing, seen.proof) == ((STARTS,), None)
    assert "stop the VM" in STARTS.words


@pytest.mark.parametrize("vmi", [{"phase": "Failed"}, {"phase": "Pending", "deleting": True}])
def test_a_promise_is_over_with_its_vmi(vmi):
    assert known(look(a_promised(pods={}), vmis=[a_vmi(uid="vmi-1", **vmi)])) == ()


def test_where_nothing_was_promised_a_launcher_that_comes_later_waits_at_the_gate():
    assert look(a_user(pods={}), vmis=[a_vmi(uid="vmi-1", phase="Pending")]).missing == ()


def test_of_a_promise_a_pod_that_may_run_is_all_that_is_said():
    vmis = [a_vmi(uid="vmi-1", phase="Scheduling", active={"p": "n1"})]
    seen = look(a_promised(), Sightings(), vmis=vmis, pods=[PINNED])
    assert seen.missing == (a_lack(Lack.POD_NOT_ENDED),)


# Its VMI is over.


@pytest.mark.parametrize("uid", ["vmi-1", ""], ids=["adopted", "never seen"])
def test_a_launcher_that_nobody_noted_before_its_vmi_went_may_run(uid):
    seen = look(a_promised(uid=uid, pods={}), pods=[a_launcher()])
    assert known(seen) == (a_lack(Lack.POD_NOT_ENDED, pod="q"),)


@pytest.mark.parametrize(
    "given",
    [
        {"pods": [a_launcher(phase="Failed")]},
        {"pods": [a_launcher(labels={})]},
        {"pods": [a_launcher(tenant="tenant-b")]},
        {"pods": [a_launcher(on=None, gates=[keys.PLACEMENT_GATE])]},
        {"claim": a_user(pods={}), "pods": [a_launcher()]},
    ],
    ids=["ended", "no launcher", "of another namespace", "at the gate", "nothing promised"],
)
def test_of_other_pods_that_name_a_vmi_nothing_is_asked(given):
    given = {"claim": a_promised(pods={}), **given}
    assert known(look(given.pop("claim"), **given)) == ()


def test_that_there_is_no_such_launcher_is_to_be_read_past_the_cache():
    claims = (a_promised(ended={"p"}), a_promised(ended={"p"}, launched=True))
    found = [look(claim, nodes=[]).proof for claim in claims]
    assert [proof and proof.unnoted for proof in found] == [{("vm", "vmi-1")}, frozenset()]


@pytest.mark.parametrize(
    "of", [lambda looking, item: reach.by_evidence(looking)(item).proof, guests.proof]
)
def test_so_it_is_before_its_claim_is_placed_elsewhere(of):
    for is_launched, unnoted in ((False, {("vm", "vmi-1")}), (True, frozenset())):
        claim = a_promised(ended={"p"}, launched=is_launched)
        looking = a_witness(claim, nodes=[], vmis=[a_vmi(uid="vmi-1", phase="", deleting=True)])
        proof = of(looking, ClaimSet(claims=(claim,), vm=ObjectKey("tenant-a", "vm")))
        assert proof is not None
        assert proof.unnoted == unnoted


@pytest.mark.parametrize(
    ("gates", "node"),
    [((), "n1"), ((keys.PLACEMENT_GATE,), "")],
    ids=["past the gate", "at the gate"],
)
def test_a_launcher_is_noted_where_the_webhook_pinned_it_before_it_is_bound(gates, node):
    """It may be bound and run, and be gone, before anybody looks again: then the note is all there is."""
    claim, vmi = a_promised(pods={}), a_vmi(uid="vmi-1", phase="Scheduling", active={"q": ""})
    pods = [a_launcher(on=None, phase="Pending", gates=gates)]
    snapshot = a_snapshot(claims=[claim], vmis=[vmi], pods=pods)
    noted = attaching.noted(snapshot, claim, vmi)
    assert noted is not None
    assert noted.pods == (AttachedPod(uid="q", node=node),)
    again = replace(claim, attached_to=noted)
    later = a_snapshot(claims=[again], vmis=[vmi], pods=pods)
    assert attaching.is_settled(later, again)
    unsure = a_promised(pods={"q": ""}, launched=True)
    snapshot = a_snapshot(claims=[unsure], vmis=[vmi], pods=pods)
    assert attaching.is_settled(snapshot, unsure) is not bool(node)


def test_one_is_noted_with_its_node_before_it_can_go_too():
    claim = a_promised(pods={})
    snapshot = a_snapshot(claims=[claim], pods=[a_launcher()])
    noted = attaching.noted(snapshot, claim, None)
    assert noted is not None
    assert noted.pods == (AttachedPod(uid="q", node="n1"),)
    assert not noted.launched


# Its VMI is over, and was being migrated to where no leader had looked yet.

STARTED = [a_user(ended={"p"}), a_promised(ended={"p"}, launched=True)]


@pytest.mark.parametrize("vmis", [[], [a_vmi(uid="vmi-1", deleting=True)]], ids=["gone", "going"])
@pytest.mark.parametrize("claim", STARTED, ids=["gate", "request"])
def test_the_target_of_a_migration_that_nobody_noted_may_run(claim, vmis):
    pods = [a_launcher(labels=TARGET)]
    seen = look(claim, vmis=vmis, pods=pods)
    assert seen.missing == (a_lack(Lack.POD_NOT_ENDED, pod="q"),)
    noted = attaching.noted(a_snapshot(claims=[claim], vmis=vmis, pods=pods), claim, None)
    assert noted is not None
    assert noted.pods[-1] == AttachedPod(uid="q", node="n1")
    assert look(replace(claim, attached_to=noted), vmis=vmis, pods=pods).proof is None


@pytest.mark.parametrize("claim", STARTED, ids=["gate", "request"])
def test_the_next_start_takes_such_a_target_over_where_it_is_or_will_be(claim):
    bound, pinned = a_launcher(labels=TARGET), a_launcher(labels=TARGET, on=None)
    for pod in (bound, pinned):
        found = attaching.left_behind(claim, None, [pod, a_launcher(uid="r")])
        assert [(it.uid, it.node) for it in found] == [("p", "n1"), ("q", "n1")]


@pytest.mark.parametrize(
    "pod",
    [
        a_launcher(labels=TARGET, phase="Failed"),
        a_launcher(labels=TARGET, tenant="tenant-b"),
        a_launcher(labels={MIGRATION_LABEL: "job"}),
        replace(a_launcher(labels=TARGET), meta=replace(a_pod(uid="q").meta, labels=TARGET)),
    ],
    ids=["ended", "of another namespace", "no launcher", "of another VMI"],
)
def test_other_targets_keep_no_claim(pod):
    assert [look(claim, pods=[pod]).missing for claim in STARTED] == [(), ()]
