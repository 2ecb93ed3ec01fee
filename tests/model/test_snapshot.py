import random

from tests.builders import H100, a_claim, a_class, a_node, a_pod, a_snapshot

TOTAL = "gpu.cozystack.io/total"


def test_the_whole_ledger_counts_every_claim_and_the_snapshots_own_is_untouched():
    snapshot = a_snapshot(claims=[a_claim("a", count=2), a_claim("b", on="n1")])
    assert snapshot.counted().used("tenant-a", TOTAL) == 3
    assert snapshot.ledger.used("tenant-a", TOTAL) == 1


def test_a_unit_counts_under_class_total_and_raw_name_at_once():
    snapshot = a_snapshot(claims=[a_claim(on="n1", count=2)])
    used = {key: snapshot.ledger.used("tenant-a", key) for key in snapshot.quota_keys("h100")}
    assert used == {"gpu.cozystack.io/h100": 2, TOTAL: 2, H100: 2}


def test_a_claim_of_an_unknown_class_counts_under_its_class_and_total():
    snapshot = a_snapshot(claims=[a_claim(on="n1", class_name="nope")])
    assert snapshot.quota_keys("nope") == ("gpu.cozystack.io/nope", TOTAL)
    assert snapshot.ledger.used("tenant-a", TOTAL) == 1


def test_raw_pod_units_count_under_the_raw_name_and_total():
    snapshot = a_snapshot(pods=[a_pod(units=2), a_pod("nic", resource="example.com/nic")])
    assert snapshot.ledger.used_units == {
        ("tenant-a", H100): 2,
        ("tenant-root", H100): 2,
        ("tenant-a", TOTAL): 2,
        ("tenant-root", TOTAL): 2,
    }


def test_the_order_objects_are_listed_in_does_not_matter():
    objects = {
        "classes": [a_class(name) for name in ("b", "a", "c")],
        "nodes": [a_node(name) for name in ("n2", "n1")],
        "claims": [
            a_claim(f"c{i}", at=i % 3, class_name="a", on=("n1", None)[i % 2]) for i in range(9)
        ],
        "pods": [a_pod(f"p{i}", on="n1") for i in range(3)],
    }
    first = a_snapshot(**objects)
    for items in objects.values():
        random.Random(7).shuffle(items)
    second = a_snapshot(**objects)
    assert list(first.classes) == list(second.classes) == ["a", "b", "c"]
    assert (first.pending, first.claims) == (second.pending, second.claims)
    assert first.ledger.free_units == second.ledger.free_units
    assert first.ledger.used_units == second.ledger.used_units
