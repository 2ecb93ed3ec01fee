"""Whatever a VMI says, the webhook answers: a patch that applies and is complete, or a denial."""

import asyncio
import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpu import keys
from gpu.objects import kinds
from tests.admission import starts
from tests.admission.attaching_site import Site
from tests.builders import H100, L40

NAMES = ("c", "d", "used", "no", "tenant-b/c", "", "C", "a" * 300, "gpu.cozystack.io")
text = st.one_of(st.sampled_from(["", "a", "gpuclaim-0", "gpuclaim-1", "ä/~"]), st.text(max_size=9))
names = st.one_of(
    st.sampled_from([H100, L40, "usb.io/x", "gpu.cozystack.io/h100", "gpu.cozystack.io/", "/", ""]),
    st.sampled_from(NAMES).map(lambda name: f"{keys.CLAIM_DEVICE_PREFIX}{name}"),
    text,
)
rubbish = st.one_of(st.none(), st.booleans(), st.integers(), text, st.lists(text, max_size=2))
entries = st.fixed_dictionaries(
    {},
    optional={
        "name": text,
        "deviceName": names,
        "tag": text,
        "claimName": text,
        "virtualGPUOptions": st.just({"display": {"enabled": False}}),
    },
)
lists = st.lists(entries, max_size=6)
any_list = st.one_of(lists, st.none(), rubbish, st.lists(st.one_of(entries, rubbish), max_size=3))
records = st.one_of(
    text,
    st.sampled_from(["[]", "{}", "null", "[" * 2000]),
    st.lists(
        st.one_of(
            st.fixed_dictionaries({"claim": st.sampled_from(NAMES), "admission": text}),
            st.fixed_dictionaries({"class": st.just("h100"), "units": st.integers(-1, 9)}),
        ),
        max_size=3,
    ).map(json.dumps),
)
annotations = st.fixed_dictionaries(
    {},
    optional={
        keys.CLAIMS_ANNOTATION: st.one_of(text, st.lists(st.sampled_from(NAMES)).map(",".join)),
        keys.RESOLVED_CLAIMS_ANNOTATION: records,
        keys.TERM_ANNOTATION: text,
        "a/b": text,
    },
)


def vmis(lists_of, resources):
    devices = st.fixed_dictionaries({}, optional={"gpus": lists_of, "hostDevices": lists_of})
    domain = st.fixed_dictionaries({}, optional={"devices": devices, "resources": resources})
    meta = st.fixed_dictionaries(
        {"namespace": st.sampled_from(["tenant-a", "default"])},
        optional={"name": st.just("vm"), "annotations": annotations},
    )
    return st.fixed_dictionaries(
        {"metadata": meta, "spec": st.fixed_dictionaries({"domain": domain})}
    )


amounts = st.dictionaries(
    st.sampled_from(["cpu", H100, "x/y"]), st.one_of(st.just("1"), st.just(1))
)
sound = vmis(lists, st.fixed_dictionaries({}, optional={"limits": amounts, "requests": amounts}))
broken = vmis(any_list, rubbish)


def put(body):
    async def run():
        site = Site()
        for name in ("c", "d"):
            site.claim(name, count=2)
        site.vmi("other", uid="u")
        site.claim("used", attached={"name": "other", "uid": "u", "admission": "x"})
        response = dict(await site.webhook()(starts.request(body)))
        again = None
        if response["allowed"]:
            again = dict(await site.webhook()(starts.request(starts.answered(body, response))))
        return site, response, again

    return asyncio.run(run())


@given(sound)
def test_a_sound_vmi_is_refused_with_reasons_or_resolved_whole(body):
    site, response, again = put(body)
    msgspec.json.encode(response)
    if not response["allowed"]:
        status = response["status"]
        assert status["code"] == 403
        assert status["details"]["causes"]
        assert all(it["message"] in status["message"] for it in status["details"]["causes"][:20])
        assert not [it for it in site.api.writes if it.kind == kinds.GPU_CLAIMS]
        return
    made = starts.answered(body, response)
    found = starts.devices(made), starts.devices(made, "hostDevices")
    ours = [one for one in (*found[0], *found[1]) if one[0].startswith(keys.UNIT_NAME_PREFIX)]
    assert [name for name, _ in ours] == [f"gpuclaim-{number}" for number in range(len(ours))]
    assert "gpu.cozystack.io/" not in str(found)
    record = starts.record(made) or []
    assert len(ours) == sum(it.get("units", 2) for it in record)
    for it in record:
        if "claim" in it:
            now = site.attached(it["claim"])
            assert (now["name"], now["admission"]) == ("vm", it["admission"])
    assert again is not None
    assert starts.answered(made, again) == made, "a repeated call changes nothing"


@given(broken)
def test_a_broken_vmi_is_answered_all_the_same(body):
    _, response, _ = put(body)
    msgspec.json.encode(response)
    assert response["allowed"] or response["status"]["code"] in {403, 422}
