"""World: its claims by namespace."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_claim, a_world

NAMES = st.sampled_from(["a", "ab", "a-b", "b", "b0"])


@given(st.sets(st.tuples(NAMES, NAMES), max_size=12), NAMES)
def test_the_claims_of_a_namespace_are_those_a_walk_over_all_finds(keys, wanted):
    claims = [a_claim(name, tenant=tenant) for tenant, name in sorted(keys)]
    world = a_world(claims=claims)
    found = tuple(claim for claim in world.claims if claim.meta.namespace == wanted)
    assert world.claims_in(wanted) == found
