"""Pods that are followed stand as if they were looked at anew, whatever was put or taken between."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpu.model.standing_pods import StandingPods
from gpu.objects import pods
from gpu.objects.pods import Pod
from gpu.units import NodeName
from tests import sampling

NODES = (NodeName("n1"), NodeName("n2"))
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
}
HOW: Mapping[str, dict[str, Any]] = {
    "on n1": {"spec": {"nodeName": "n1"}},
    "on n2": {"spec": {"nodeName": "n2"}},
    "wary": {"spec": {"nodeName": "n2", "affinity": APART}},
    "waits": {"spec": {}},
    "over": {"spec": {"nodeName": "n1"}, "status": {"phase": "Succeeded"}},
}


def a_pod(number: int, how: str) -> Pod:
    meta = {"name": f"p{number}", "namespace": f"t{number % 2}", "uid": f"u{number}"}
    return pods.decode({"metadata": meta, "status": {"phase": "Running"}, **HOW[how]})


def told(found: StandingPods) -> tuple[Any, ...]:
    """What it says, without what is empty."""
    return (
        {name: dict(there) for name, there in found.on.items() if there},
        {name: dict(there) for name, there in found.within.items() if there},
        dict(found.wary),
    )


LOOKS = st.dictionaries(st.integers(0, 5), st.sampled_from(sorted(HOW)))
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["put", "take"]),
        st.integers(0, 7),
        st.sampled_from(["waits", "wary"]),
        st.sampled_from(NODES),
    ),
    max_size=4,
)


@sampling.examples(200)
@given(st.lists(st.tuples(LOOKS, DEEDS), min_size=1, max_size=4), LOOKS)
def test_what_is_followed_is_what_is_seen_anew(before, now):
    found, kept = StandingPods(), {}

    def shown(look: Mapping[int, str]) -> tuple[Pod, ...]:
        """A pod that says the same is the same object, as the store has it."""
        return tuple(
            kept.setdefault((number, how), a_pod(number, how))
            for number, how in sorted(look.items())
        )

    for look, deeds in before:
        found.follow(shown(look))
        for deed, number, how, node in deeds:
            getattr(found, deed)(a_pod(number, how), node)
    found.follow(shown(now))
    assert told(found) == told(StandingPods().follow(shown(now)))


def test_what_is_put_and_taken_counts_until_pods_are_followed_again():
    there, fresh = a_pod(0, "on n1"), a_pod(1, "waits")
    found = StandingPods().follow([there])
    found.put(fresh, NODES[1])
    found.take(there, NODES[0])
    assert told(found) == ({"n2": {("t1", "u1"): fresh}}, {"t1": {("t1", "u1"): (fresh, "n2")}}, {})
    found.follow([there])
    assert told(found) == ({"n1": {("t0", "u0"): there}}, {"t0": {("t0", "u0"): (there, "n1")}}, {})


def test_whoever_is_passed_on_unchanged_is_not_looked_at_again():
    there = tuple(a_pod(number, "on n1") for number in range(3))
    found = StandingPods().follow(there)
    kept = found.on[NODES[0]]
    found.follow((*there[:2], a_pod(5, "on n2")))
    assert found.on[NODES[0]] is kept
    assert set(kept) == {("t0", "u0"), ("t1", "u1")}
