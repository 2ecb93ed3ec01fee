import pytest

from gpu.model import ledger
from gpu.model.ledger import Holder
from gpu.model.tenancy import Tree
from gpu.objects.tenants import Declared

R = "nvidia.com/x"
K = "gpu.cozystack.io/x"
VM = Holder("tenant-a", "vm")


def a_book(capacity=8, **declared):
    tree = Tree(
        declarations={
            name.replace("_", "-"): Declared(units={K: units}) for name, units in declared.items()
        }
    )
    book = ledger.empty(tree, {R: {"n1": capacity}})
    book.load({})
    return book


def amounts(book):
    return (
        book.free_units,
        book.reserved,
        book.held,
        {key: value for key, value in book.shared.items() if any(value)},
        {key: value for key, value in book.used_units.items() if value},
    )


def test_units_of_claims_and_pods_of_nobody_add_up():
    book = a_book()
    book.hold("n1", R, 2)
    book.occupy("n1", R, 3)
    assert book.free("n1", R) == 3


@pytest.mark.parametrize(
    ("held", "requested", "free"),
    [
        pytest.param(4, 4, 4, id="a pod its claim covers counts once"),
        pytest.param(4, 1, 4, id="a claim larger than its pod"),
        pytest.param(1, 4, 4, id="a pod larger than its claim"),
        pytest.param(0, 4, 4, id="a pod without a claim on the node"),
        pytest.param(8, 9, -1, id="more than the node has"),
    ],
)
def test_claims_and_pods_of_one_vm_use_the_larger_of_both(held, requested, free):
    book = a_book()
    book.hold("n1", R, held, VM)
    book.occupy("n1", R, requested, VM)
    assert book.free("n1", R) == free


def test_a_claim_covers_no_pod_on_another_node():
    book = a_book()
    book.hold("n1", R, 4, VM)
    book.occupy("n2", R, 4, VM)
    assert (book.free("n1", R), book.free("n2", R)) == (4, -4)


def test_reserved_units_are_free_but_leave_no_room():
    book = a_book()
    book.reserve("n1", R, 3)
    assert (book.free("n1", R), book.room("n1", R)) == (8, 5)


def test_an_undeclared_childs_use_counts_in_every_tenant_above():
    book = a_book()
    book.charge("tenant-a-b", K, 2)
    assert [book.used(tenant, K) for tenant in ("tenant-a-b", "tenant-a", "tenant-root")] == [
        2,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("charged", "above"),
    [
        pytest.param(0, 4, id="unused promise"),
        pytest.param(3, 4, id="used in part"),
        pytest.param(6, 6, id="used over what it declares"),
    ],
)
def test_a_declaring_child_counts_above_as_the_larger_of_promised_and_used(charged, above):
    book = a_book(tenant_a_b=4)
    book.charge("tenant-a-b", K, charged)
    assert (book.used("tenant-a-b", K), book.used("tenant-a", K)) == (charged, above)


def test_charges_in_steps_end_where_one_load_does():
    stepwise = a_book(tenant_a=3, tenant_a_b=4, tenant_a_b_c=1)
    for units in (2, 3, -1):
        stepwise.charge("tenant-a-b-c", K, units)
    stepwise.charge("tenant-a", K, 1)
    loaded = a_book(tenant_a=3, tenant_a_b=4, tenant_a_b_c=1)
    loaded.load({("tenant-a-b-c", K): 4, ("tenant-a", K): 1})
    assert stepwise.used_units == loaded.used_units


def test_the_root_counts_its_own_declaration_as_nobodys_child():
    book = a_book(tenant_root=5, tenant_a=3)
    assert book.used("tenant-root", K) == 3


def test_a_savepoint_that_is_not_kept_undoes_everything():
    book = a_book(tenant_a=3)
    before = amounts(book.copy())
    mark = book.mark()
    book.hold("n1", R, 2, VM)
    book.occupy("n1", R, 5, VM)
    book.hold("n2", "nvidia.com/y", 1)
    book.reserve("n1", R, 1)
    book.charge("tenant-a-b", K, 9)
    book.close(mark, keep=False)
    after = amounts(book)
    assert [
        {
            name: {n: u for n, u in room.items() if u}
            for name, room in part.items()
            if any(room.values())
        }
        for part in after[:3]
    ] == [{R: {"n1": 8}}, {}, {}]
    assert after[3:] == before[3:]


def test_an_inner_savepoint_is_undone_and_the_outer_one_kept():
    book = a_book()
    outer = book.mark()
    book.hold("n1", R, 2)
    inner = book.mark()
    book.hold("n1", R, 3)
    book.close(inner, keep=False)
    book.close(outer, keep=True)
    assert book.free("n1", R) == 6


def test_a_kept_inner_savepoint_goes_with_the_outer_one():
    book = a_book()
    outer = book.mark()
    inner = book.mark()
    book.hold("n1", R, 3)
    book.close(inner, keep=True)
    book.close(outer, keep=False)
    assert book.free("n1", R) == 8


def test_a_copy_does_not_see_what_the_original_does_later():
    book = a_book()
    copy = book.copy()
    book.hold("n1", R, 3, VM)
    book.reserve("n1", R, 1)
    book.charge("tenant-a", K, 1)
    assert (copy.free("n1", R), copy.room("n1", R), copy.used("tenant-a", K)) == (8, 8, 0)


def test_a_node_below_zero_lends_nothing_to_another():
    assert ledger.total([3, -5, 2]) == 5
