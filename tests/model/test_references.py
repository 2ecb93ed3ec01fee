"""What device names and the annotation ask for, and what the webhook's own entries look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.model import references
from gpu.model.references import Entry, Held, OfClass, Other, Place, References, Strange
from tests.builders import H100, L40


@pytest.mark.parametrize(
    ("device", "target"),
    [
        ("claim.gpu.cozystack.io/c", Held("c")),
        ("claim.gpu.cozystack.io/a.b", Held("a.b")),
        ("claim.gpu.cozystack.io/tenant-b/c", Held("tenant-b/c")),
        ("claim.gpu.cozystack.io/", Strange("claim.gpu.cozystack.io/")),
        ("claim.gpu.cozystack.io", Strange("claim.gpu.cozystack.io")),
        ("gpu.cozystack.io/h100", OfClass("h100")),
        ("gpu.cozystack.io/total", OfClass("total")),
        ("gpu.cozystack.io/", Strange("gpu.cozystack.io/")),
        ("gpu.cozystack.io", Strange("gpu.cozystack.io")),
        ("gpu.cozystack.io/a/b", Strange("gpu.cozystack.io/a/b")),
        ("device.gpu.cozystack.io/c", Strange("device.gpu.cozystack.io/c")),
        ("x.claim.gpu.cozystack.io/c", Strange("x.claim.gpu.cozystack.io/c")),
        ("notgpu.cozystack.io/h100", Other("notgpu.cozystack.io/h100")),
        ("gpu.cozystack.io.example.com/h100", Other("gpu.cozystack.io.example.com/h100")),
        (H100, Other(H100)),
        ("", Other("")),
    ],
)
def test_a_device_name_asks_for(device, target):
    assert references.target_of(device) == target


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        (" , ,", ()),
        ("a", ("a",)),
        (" b ,a,b", ("b", "a", "b")),
        ("tenant-b/c", ("tenant-b/c",)),
    ],
)
def test_the_annotation_lists_claims(text, names):
    assert references.listed(text) == names


def entry(device, name="g", place=Place.GPUS, index=0):
    return Entry(place, index, name, device)


def test_references_are_told_with_their_place():
    found = References(
        entries=(
            entry("claim.gpu.cozystack.io/a"),
            entry("gpu.cozystack.io/h100", index=1),
            entry(H100, index=2),
            entry("gpu.cozystack.io/h100", place=Place.HOST_DEVICES),
            entry("x.gpu.cozystack.io/a", place=Place.HOST_DEVICES, index=1),
            entry("claim.gpu.cozystack.io/z", name="gpuclaim-0", place=Place.HOST_DEVICES, index=2),
        ),
        listed=("b",),
        amounts={"spec.domain.resources.limits[x]": L40},
    )
    assert list(found.held()) == [
        ("a", "spec.domain.devices.gpus[0].deviceName"),
        ("b", "metadata.annotations[gpu.cozystack.io/claims]"),
    ]
    assert found.template() == {"h100": 2}
    assert found.first("h100") == "spec.domain.devices.gpus[1].deviceName"
    assert list(found.strange()) == [
        ("x.gpu.cozystack.io/a", "spec.domain.devices.hostDevices[1].deviceName")
    ]
    assert list(found.raw({H100, L40})) == [
        (H100, "spec.domain.devices.gpus[2].deviceName"),
        (L40, "spec.domain.resources.limits[x]"),
    ]
    assert [one.path for one in found.reserved] == ["spec.domain.devices.hostDevices[2]"]
    assert found.count == 6


units = st.lists(st.sampled_from([H100, L40]), max_size=6)


@given(units)
def test_what_the_webhook_writes_agrees_with_its_record(devices):
    entries = [
        entry(device, name=references.unit_name(number)) for number, device in enumerate(devices)
    ]
    wanted = {device: devices.count(device) for device in set(devices)}
    assert references.agrees(entries, wanted)
    assert not references.agrees(entries, {**wanted, H100: wanted.get(H100, 0) + 1})
    assert not references.agrees([*entries, entry(H100, name="gpuclaim-x")], wanted)
    if entries:
        assert not references.agrees(entries[1:], wanted)
        assert not references.agrees([*entries[1:], entries[0]], wanted) or len(entries) == 1
