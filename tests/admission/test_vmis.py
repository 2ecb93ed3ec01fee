"""The VMI webhook without its write: what each reference becomes, and every reason for a refusal."""

import pytest

from gpu import keys
from gpu.admission.review import Denied
from gpu.model import premises
from gpu.objects.claims import GPUClaim
from tests.admission.judging import CLAIMS, a_start, admitted, attached, path, refused
from tests.admission.starts import a_vmi, claim, devices, gpu, record, unit
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_kubevirt,
    a_settings,
)
from tests.builders import (
    a_vmi as stored_vmi,
)

TOLD = "tenant-a, and a VM uses claims of its own namespace only: order it, or name one that"


def test_a_held_claim_becomes_all_its_units_at_its_place():
    before = [gpu("usb.io/x"), claim("three", name="mine", tag="t"), gpu("usb.io/y")]
    found = admitted(a_vmi(gpus=before))
    assert devices(found) == [
        ("g", "usb.io/x"),
        ("gpuclaim-0", H100),
        ("gpuclaim-1", H100),
        ("gpuclaim-2", H100),
        ("g", "usb.io/y"),
    ]
    assert [one.get("tag") for one in found["spec"]["domain"]["devices"]["gpus"]] == [
        None,
        "t",
        "t",
        "t",
        None,
    ]
    assert record(found) == [{"claim": "three", "admission": "id-three"}]


def test_units_are_counted_over_the_whole_vmi():
    found = admitted(
        a_vmi(gpus=[unit(), claim("one")], hosts=[claim("l"), unit()], listed=" three ,")
    )
    assert devices(found) == [(f"gpuclaim-{number}", H100) for number in range(5)]
    assert devices(found, "hostDevices") == [("gpuclaim-5", L40), ("gpuclaim-6", H100)]
    assert record(found) == [
        {"claim": "l", "admission": "id-l"},
        {"claim": "one", "admission": "id-one"},
        {"claim": "three", "admission": "id-three"},
        {"class": "h100", "units": 2},
    ]


def test_the_annotation_alone_makes_the_list():
    found = admitted(a_vmi(listed="one"))
    assert devices(found) == [("gpuclaim-0", H100)]
    assert found["metadata"]["annotations"][keys.CLAIMS_ANNOTATION] == "one"


@pytest.mark.parametrize("there", list(CLAIMS), ids=lambda it: f"{it.meta.name}-{it.phase.value}")
def test_what_waiting_cures_is_admitted(there: GPUClaim):
    """Pending or Bound; a claim whose budget or node is full is the binder's."""
    assert record(admitted(a_vmi(gpus=[claim(there.meta.name)])))


def test_a_lost_claim_waits_at_the_gate():
    assert record(admitted(a_vmi(gpus=[claim("gone")]), claims=[a_claim("gone", lost="n1")]))


def test_a_retired_class_keeps_its_holders():
    holder = a_claim("old", class_name="old", on="n1")
    assert record(admitted(a_vmi(gpus=[claim("old")]), claims=[holder]))


def test_a_vmi_without_a_name_may_have_template_units():
    assert record(admitted(a_vmi("", gpus=[unit()]))) == [{"class": "h100", "units": 1}]


def test_raw_names_are_recorded_as_nothing_referenced():
    allowed = a_settings(raw=True)
    for body in (
        a_vmi(gpus=[gpu(H100)]),
        a_vmi(hosts=[gpu(H100)]),
        a_vmi(resources={"limits": {H100: "1"}}),
    ):
        found = admitted(body, settings=allowed)
        assert record(found) == []
        assert found["spec"] == body["spec"]


def test_annotations_of_ours_are_stripped_from_all_others():
    marks = {
        keys.RESOLVED_CLAIMS_ANNOTATION: '[{"class":"h100","units":8}]',
        keys.TERM_ANNOTATION: "9",
        "example.com/kept": "yes",
    }
    found = admitted(a_vmi(gpus=[gpu("usb.io/x")], listed="", annotations=marks))
    assert found["metadata"]["annotations"] == {"example.com/kept": "yes"}


def test_a_record_that_a_tenant_wrote_is_overwritten():
    marks = {
        keys.RESOLVED_CLAIMS_ANNOTATION: '[{"claim":"three","admission":"forged"}]',
        keys.TERM_ANNOTATION: "9",
    }
    found = admitted(a_vmi(gpus=[claim("one")], annotations=marks))
    assert record(found) == [{"claim": "one", "admission": "id-one"}]
    assert keys.TERM_ANNOTATION not in found["metadata"]["annotations"]


USED = attached("other", uid="u-other")
LIVING = stored_vmi("other", uid="u-other")


@pytest.mark.parametrize(
    ("body", "objects", "found"),
    [
        pytest.param(a_vmi(gpus=[claim("no")]), {}, [("ClaimMissing", path())], id="missing"),
        pytest.param(
            a_vmi(gpus=[claim("tenant-b/one")]), {}, [("ClaimElsewhere", path())], id="slash"
        ),
        pytest.param(a_vmi(gpus=[claim("tenant-b.one")]), {}, [("ClaimMissing", path())], id="dot"),
        pytest.param(
            a_vmi(listed="tenant-b/one"),
            {},
            [("ClaimElsewhere", "metadata.annotations[gpu.cozystack.io/claims]")],
            id="slash-in-the-annotation",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one")]),
            {"claims": [a_claim("one", tenant="tenant-b", on="n1")]},
            [("ClaimMissing", path())],
            id="anothers",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one")]),
            {"claims": [a_claim("one", on="n1", deleting=True)]},
            [("ClaimDeleting", path())],
            id="deleting",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one")]),
            {"claims": [USED], "vmis": [LIVING]},
            [("ClaimInUse", path())],
            id="used-by-a-living-vmi",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one")]),
            {"claims": [attached("other", since=-30)]},
            [("ClaimInUse", path())],
            id="another-is-being-started",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one")]),
            {"claims": [a_claim("one", on="n1", template=True)]},
            [("ClaimOfVM", path())],
            id="made-for-a-template",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one"), claim("one")]),
            {},
            [("ClaimListedTwice", path())],
            id="twice",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one")], listed="one"),
            {},
            [("ClaimListedTwice", path())],
            id="twice-by-the-annotation",
        ),
        pytest.param(a_vmi(gpus=[unit("no")]), {}, [("NoSuchClass", path())], id="class-missing"),
        pytest.param(
            a_vmi(gpus=[unit("total")]), {}, [("NoSuchClass", path())], id="no-class-is-total"
        ),
        pytest.param(a_vmi(gpus=[unit("old")]), {}, [("ClassRetired", path())], id="class-retired"),
        pytest.param(
            a_vmi(gpus=[unit()]),
            {"classes": [a_class(deleting=True)]},
            [("ClassDeleting", path())],
            id="class-deleting",
        ),
        pytest.param(
            a_vmi(gpus=[unit(), claim("l")]),
            {"kubevirts": [a_kubevirt(L40)]},
            [("NotPermitted", path())],
            id="class-not-permitted",
        ),
        pytest.param(
            a_vmi(gpus=[claim("l")]),
            {"kubevirts": [a_kubevirt(H100)]},
            [("NotPermitted", path())],
            id="class-of-a-claim-not-permitted",
        ),
        pytest.param(
            a_vmi(gpus=[claim("one")]),
            {"classes": []},
            [("NoSuchClass", path())],
            id="class-of-a-claim-missing",
        ),
        pytest.param(a_vmi(gpus=[unit()] * 5), {}, [("OverMaxCount", path())], id="over-max-count"),
        pytest.param(
            a_vmi(gpus=[unit()] * 2),
            {"classes": [a_class(mode="vgpu")]},
            [("OverMaxCount", path())],
            id="two-of-a-vgpu-class",
        ),
        pytest.param(
            a_vmi(gpus=[gpu("usb.io/x", name="gpuclaim-x")]),
            {},
            [("NameReserved", path(member="name"))],
            id="reserved",
        ),
        pytest.param(
            a_vmi(hosts=[claim("one", name="gpuclaim-0")]),
            {},
            [("NameReserved", path(place="hostDevices", member="name"))],
            id="reserved-with-a-reference",
        ),
        pytest.param(a_vmi(gpus=[gpu(H100)]), {}, [("RawNameDenied", path())], id="raw"),
        pytest.param(
            a_vmi(resources={"requests": {H100: 1}}),
            {},
            [("RawNameDenied", f"spec.domain.resources.requests[{H100}]")],
            id="raw-by-amount",
        ),
        pytest.param(
            a_vmi(gpus=[gpu(L40), gpu(L40)]),
            {"classes": [], "kubevirts": [a_kubevirt(L40)], "claims": []},
            [("RawNameDenied", path())],
            id="raw-of-no-class",
        ),
        pytest.param(
            a_vmi("", gpus=[claim("one"), unit()]),
            {},
            [("NameMissing", "metadata.name")],
            id="no-name-yet",
        ),
        pytest.param(
            a_vmi(gpus=[gpu("device.gpu.cozystack.io/one"), gpu("gpu.cozystack.io/a/b")]),
            {},
            [("NoReference", path()), ("NoReference", path(1))],
            id="no-form-of-ours",
        ),
        pytest.param(
            a_vmi(gpus=[gpu("claim.gpu.cozystack.io/")]),
            {},
            [("NoReference", path())],
            id="a-claim-without-a-name",
        ),
        pytest.param(
            a_vmi(gpus=[unit()] * 257),
            {},
            [("TooManyUnits", "spec.domain.devices")],
            id="too-many-entries",
        ),
        pytest.param(
            a_vmi(gpus=[claim("huge"), unit()]),
            {"claims": [a_claim("huge", count=256, on="n1")]},
            [("TooManyUnits", "spec.domain.devices")],
            id="too-many-units",
        ),
        pytest.param(
            a_vmi(gpus=[unit()], tenant="default"),
            {},
            [("NoTenant", "metadata.namespace")],
            id="no-tenant",
        ),
    ],
)
def test_what_waiting_cannot_cure_is_refused(body, objects, found):
    assert refused(body, **objects) == found


def test_all_reasons_are_told_at_once():
    body = a_vmi(
        "",
        gpus=[claim("no"), gpu(H100), unit("old"), claim("one", name="gpuclaim-0")],
        listed="l,l",
    )
    assert refused(body) == [
        ("NameReserved", path(3, member="name")),
        ("RawNameDenied", path(1)),
        ("ClaimListedTwice", "metadata.annotations[gpu.cozystack.io/claims]"),
        ("ClaimMissing", path(0)),
        ("NameMissing", "metadata.name"),
        ("ClassRetired", path(2)),
    ]


def test_the_message_names_object_number_and_next_step():
    found = a_start(a_vmi(gpus=[claim("no"), unit("old")]))
    assert isinstance(found, Denied)
    assert found.message == (
        f"VM vm: claim no does not exist in {TOLD} `kubectl get gpuclaims -n tenant-a` lists; "
        "class old is retired and takes no new orders: order another class"
    )
    assert (found.code, found.about.name, found.about.kind) == (
        403,
        "vm",
        "virtualmachineinstances",
    )
    assert found.rests_on == premises.of_object(GPUClaim, "no", "tenant-a")


def test_many_reasons_are_told_in_part():
    found = a_start(a_vmi(listed=",".join(f"no-{number}" for number in range(150))))
    assert isinstance(found, Denied)
    assert found.message.endswith("; and 130 reasons more")
    assert len(found.causes) == 100


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param({"vmis": [stored_vmi("other", uid="u-other", deleting=True)]}, id="going"),
        pytest.param({"vmis": [stored_vmi("other", uid="u-other", phase="Failed")]}, id="ended"),
        pytest.param({"vmis": [stored_vmi("other", uid="u-newer")]}, id="another-start"),
        pytest.param({}, id="gone"),
    ],
)
def test_a_vmi_that_is_ending_does_not_block_anothers_start(objects):
    assert record(admitted(a_vmi(gpus=[claim("one")]), claims=[USED], **objects))


def test_an_attachment_that_waited_long_enough_does_not_either():
    late = attached("other", since=-61)
    assert record(admitted(a_vmi(gpus=[claim("one")]), claims=[late]))


def test_a_claim_that_cannot_be_read_is_not_called_missing():
    body = a_vmi(gpus=[claim("torn")])
    found = a_start(body, unreadable_claims=frozenset({("tenant-a", "torn")}))
    assert isinstance(found, Denied)
    assert (found.code, found.retry_after) == (503, 1)
