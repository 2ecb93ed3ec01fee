from dataclasses import replace

import pytest

from gpu.model import usage
from gpu.model.records import Records
from gpu.objects.meta import ObjectKey, ObjectMeta, OwnerRef
from gpu.objects.workloads import Workload
from tests.builders import a_claim

ONE, TWO = a_claim("one", on="n1"), a_claim("two", on="n1")


def a_record(claim, name=""):
    owner = OwnerRef(
        api_version="gpu.cozystack.io/v1alpha1",
        kind="GPUClaim",
        name=claim.meta.name,
        uid=claim.meta.uid,
    )
    meta = ObjectMeta(
        name=name or usage.name_of(claim.meta.name),
        namespace=claim.meta.namespace,
        owners=(owner,),
    )
    return Workload(meta=meta, kind="gpuclaim")


OF_ONE, OF_TWO = a_record(ONE), a_record(TWO)


def look(known, holders, workloads, *, anchored=False):
    known.follow(tuple(workloads), usage.owner_of, usage.is_ours)
    known.hold(tuple(holders), anchored=anchored)


def agreed():
    """Both claims have their record as it should be, and that was seen."""
    known = Records()
    look(known, (ONE, TWO), (OF_ONE, OF_TWO))
    assert known.unsure() == [ONE, TWO]
    for claim, record in ((ONE, OF_ONE), (TWO, OF_TWO)):
        known.agreed[claim.meta.uid] = record.meta.key
    return known


CHANGES = {
    "nothing": ((ONE, TWO), (OF_ONE, OF_TWO), [], []),
    "a claim came": ((ONE, TWO, a_claim("x", on="n1")), (OF_ONE, OF_TWO), ["x"], []),
    "a claim went": ((TWO,), (OF_ONE, OF_TWO), [], [OF_ONE]),
    "a claim changed": ((ONE, replace(TWO, term=7)), (OF_ONE, OF_TWO), ["two"], [OF_TWO]),
    "a record went": ((ONE, TWO), (OF_TWO,), ["one"], []),
    "a record changed": (
        (ONE, TWO),
        (replace(OF_ONE, kind="other"), OF_TWO),
        ["one"],
        [replace(OF_ONE, kind="other")],
    ),
    "a pod's record came": ((ONE, TWO), (OF_ONE, OF_TWO, a_record(ONE, "pod-x")), [], []),
    "a second record of a claim came": (
        (ONE, TWO),
        (a_record(ONE, "gpuclaim-second"), OF_ONE, OF_TWO),
        ["one"],
        [OF_ONE, a_record(ONE, "gpuclaim-second")],
    ),
}


@pytest.mark.parametrize(
    ("holders", "workloads", "unsure", "others"), CHANGES.values(), ids=CHANGES
)
def test_only_what_changed_is_looked_at_again(holders, workloads, unsure, others):
    known = agreed()
    look(known, holders, workloads)
    assert [claim.meta.name for claim in known.unsure()] == unsure
    found = sorted((item for _, item, _ in known.others()), key=lambda item: item.meta.key)
    assert found == sorted(others, key=lambda item: item.meta.key)


def test_all_is_looked_at_again_under_another_rule():
    known = agreed()
    look(known, (ONE, TWO), (OF_ONE, OF_TWO), anchored=True)
    assert known.unsure() == [ONE, TWO]


def test_records_are_told_in_key_order_however_they_came():
    known = Records()
    look(known, (), (OF_TWO,))
    look(known, (), (OF_ONE, OF_TWO))
    assert [key for key, _, _ in known.others()] == [OF_ONE.meta.key, OF_TWO.meta.key]
    assert known.there[ObjectKey(*OF_ONE.meta.key)] == (OF_ONE, ONE.meta.uid)


def test_the_living_are_told_anew_of_claims_and_namespaces_that_changed():
    known, nowhere = Records(), frozenset[str]()
    going = a_claim("two", on="n1", deleting=True)
    assert known.living((ONE, TWO), nowhere) == {ONE.meta.uid, TWO.meta.uid}
    assert known.living((ONE, going), nowhere) == {ONE.meta.uid}
    assert known.living((ONE, TWO), nowhere) == {ONE.meta.uid, TWO.meta.uid}
    assert known.living((TWO,), nowhere) == {TWO.meta.uid}
    assert known.living((ONE, TWO), frozenset({ONE.meta.namespace})) == set()
    assert known.living((ONE, TWO), nowhere) == {ONE.meta.uid, TWO.meta.uid}
