"""The volume that KubeVirt keeps a VMI's own state in is one of its launcher's, once it is there."""

import pytest

from gpu.admission import foreseen, review
from gpu.objects import foreseen as stored
from tests import builders, starting
from tests.admission import starts

STATE = "persistent-state-for"
TPM = {"devices": {"tpm": {"persistent": True}}}


def volumes(*claims, domain=TPM, status=None, own=()):
    """Volumes of the launcher that is foreseen, beside these claims."""
    body = starts.a_vmi("vm", gpus=[starts.claim("c")])
    devices = {**body["spec"]["domain"]["devices"], **domain.get("devices", {})}
    body["spec"] = {"domain": {**domain, "devices": devices}, "volumes": list(own)}
    if status:
        body["status"] = status
    world = builders.a_world(volume_claims=list(claims))
    text = foreseen.launcher(review.decode(starts.request(body)), world)
    return stored.launcher(text, "tenant-a", "r").volumes


def state(name=f"{STATE}-vm-x7", *, of="vm", **more):
    return starting.a_volume_claim(name, labels={STATE: of} if of else {}, **more)


KEEPS = {
    "a TPM that persists": (TPM, None, True),
    "switched on": ({"devices": {"tpm": {"persistent": True, "enabled": True}}}, None, True),
    "switched off": ({"devices": {"tpm": {"persistent": True, "enabled": False}}}, None, False),
    "one that forgets": ({"devices": {"tpm": {}}}, None, False),
    "EFI that persists": (
        {"firmware": {"bootloader": {"efi": {"persistent": True}}}},
        None,
        True,
    ),
    "EFI that forgets": ({"firmware": {"bootloader": {"efi": {}}}}, None, False),
    "changed blocks": ({}, {"changedBlockTracking": {"state": "Initializing"}}, True),
    "no changed blocks": ({}, {"changedBlockTracking": {"state": "Disabled"}}, False),
    "nothing": ({}, None, False),
}


@pytest.mark.parametrize(("domain", "status", "keeps"), KEEPS.values(), ids=KEEPS)
def test_it_is_there_for(domain, status, keeps):
    found = volumes(state(), domain=domain, status=status)
    assert found == ((f"{STATE}-vm-x7",) if keeps else ())


FOUND = {
    "by its label, whatever its name": ([state("any")], ("any",)),
    "by the name of old": ([state(f"{STATE}-vm", of="")], (f"{STATE}-vm",)),
    "the label before the name": (
        [state(f"{STATE}-vm", of=""), state(f"{STATE}-vm-x7")],
        (f"{STATE}-vm-x7",),
    ),
    "not one on its way out": ([state(deleting=True)], ()),
    "not another VM's": ([state(of="vm-2"), state(f"{STATE}-vm-2", of="")], ()),
    "not another's by its label, though named so": ([state("any", of="other")], ()),
    "not another tenant's": ([state(tenant="tenant-b")], ()),
    "not before its first start": ([], ()),
    "not the target of a migration": ([state(f"{STATE}-vm-y8", of="")], ()),
}


@pytest.mark.parametrize(("claims", "wanted"), FOUND.values(), ids=FOUND)
def test_it_is_found(claims, wanted):
    assert volumes(*claims) == wanted


def test_it_comes_beside_the_vmis_own_volumes_once():
    disk = {"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}
    same = {"name": "s", "persistentVolumeClaim": {"claimName": "any"}}
    assert volumes(state("any"), own=[disk]) == ("disk", "any")
    assert volumes(state("any"), own=[same]) == ("any",)
