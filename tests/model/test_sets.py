from gpu.model import sets
from tests.builders import a_claim, a_snapshot, a_vm


def test_a_claim_attached_to_nothing_is_a_set_of_its_own():
    one, two = a_claim("one", at=2), a_claim("two", at=1)
    assert [item.claims for item in sets.group([one, two])] == [(two,), (one,)]


def test_claims_of_one_vm_are_one_set_as_old_as_its_oldest():
    young = a_claim("young", vm="vm", at=9, count=2)
    old = a_claim("old", vm="vm", at=1, class_name="l40")
    alone = a_claim("alone", at=5)
    first, second = sets.group([young, alone, old])
    assert (first.claims, second.claims) == ((old, young), (alone,))
    assert first.id == "tenant-a/old"
    assert first.wants == {"h100": 2, "l40": 1}
    assert first.age == old.age


def test_vms_of_the_same_name_in_two_tenants_share_nothing():
    found = sets.group([a_claim(vm="vm"), a_claim(vm="vm", tenant="tenant-b")])
    assert [len(item.claims) for item in found] == [1, 1]


def test_a_set_is_torn_between_nodes_or_phases():
    def whole(*claims):
        (found,) = sets.group(claims)
        return found.is_whole, found.is_lost

    bound = a_claim("a", vm="vm", on="n1")
    assert whole(bound, a_claim("b", vm="vm", on="n1")) == (True, False)
    assert whole(bound, a_claim("b", vm="vm", on="n2")) == (False, False)
    assert whole(bound, a_claim("b", vm="vm", lost="n1")) == (False, True)
    assert whole(a_claim("a", vm="vm", lost="n1"), a_claim("b", vm="vm", lost="n2")) == (True, True)


def test_a_claim_that_one_vm_names_is_of_its_set_and_one_that_two_name_stands_alone():
    """Or whoever makes VMs could drag a claim about by naming it once more."""
    claims = [a_claim(name, on="n1") for name in ("a", "b", "c")]
    vms = [a_vm("one", claims=["a", "b", "c"]), a_vm("two", claims=["c", "elsewhere"])]
    found = a_snapshot(claims=claims, vms=vms).sets
    members = sorted([claim.meta.name for claim in item.claims] for item in found)
    assert members == [["a", "b"], ["c"]]


def test_a_vm_of_another_tenant_names_nobodys_claim():
    claims = [a_claim(name, tenant="tenant-b", on="n1") for name in ("a", "b")]
    found = a_snapshot(claims=claims, vms=[a_vm("one", tenant="tenant-a", claims=["a", "b"])]).sets
    assert [len(item.claims) for item in found] == [1, 1]
