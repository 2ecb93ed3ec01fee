import pytest

from gpu import keys
from gpu.model import tenancy
from gpu.objects import tenants
from tests.builders import a_namespace, a_quota, a_release, budget, raw_release


@pytest.mark.parametrize(
    ("tenant", "line"),
    [
        ("tenant-root", ["tenant-root"]),
        ("tenant-a", ["tenant-a", "tenant-root"]),
        ("tenant-a-b-c", ["tenant-a-b-c", "tenant-a-b", "tenant-a", "tenant-root"]),
        ("default", ["default"]),
        ("tenant", ["tenant"]),
    ],
)
def test_the_line_of_a_tenant_goes_up_to_the_root(tenant, line):
    assert list(tenancy.Tree().line(tenant)) == line


def test_every_tenant_nests_deeper_than_the_one_above():
    line = list(tenancy.Tree().line("tenant-a-b-c"))
    levels = [tenancy.nesting(tenant) for tenant in line]
    assert levels == sorted(levels, reverse=True)
    assert len(set(levels)) == len(levels)


def test_a_helm_release_declares_for_the_tenant_it_makes():
    tree = tenancy.build(
        namespaces=[], releases=[a_release("tenant-a-b", budget(h100=4))], quotas=[]
    )
    assert tree.declared("tenant-a-b") == {"gpu.cozystack.io/h100": 4}
    assert tree.declared("tenant-a") == {}


def test_the_resource_quota_counts_only_where_no_helm_release_exists():
    tree = tenancy.build(
        namespaces=[],
        releases=[a_release("tenant-a", {})],
        quotas=[
            a_quota("tenant-a", of={"requests.nvidia.com/x": "9"}),
            a_quota("tenant-b", of={"requests.nvidia.com/x": "2", "limits.nvidia.com/x": "7"}),
            a_quota("tenant-c", name="another", of={"requests.nvidia.com/x": "3"}),
        ],
    )
    assert tree.declared("tenant-a") == {}
    assert tree.declared("tenant-b") == {"nvidia.com/x": 2}
    assert tree.declared("tenant-c") == {}


def test_of_two_releases_for_one_tenant_the_one_beside_its_parent_counts():
    right = a_release("tenant-a-b", budget(h100=1))
    wrong = a_release("tenant-a", budget(h100=2))
    dashed = type(wrong)(meta=wrong.meta, tenant=right.tenant, declared=wrong.declared)
    for releases in ([right, dashed], [dashed, right]):
        tree = tenancy.build(namespaces=[], releases=releases, quotas=[])
        assert tree.declared("tenant-a-b") == {"gpu.cozystack.io/h100": 1}


@pytest.mark.parametrize(
    ("group", "declared"),
    [
        pytest.param({keys.APPLICATION_GROUP_LABEL: "apps.cozystack.io"}, True, id="the host's"),
        pytest.param({}, True, id="written without the label"),
        pytest.param({keys.APPLICATION_GROUP_LABEL: "example.com"}, False, id="another group's"),
    ],
)
def test_only_the_hosts_kind_tenant_declares(group, declared):
    raw = raw_release("tenant-a", budget(h100=4))
    raw["metadata"]["labels"] = {keys.APPLICATION_KIND_LABEL: "Tenant", **group}
    tree = tenancy.build(namespaces=[], releases=[tenants.decode_release(raw)], quotas=[])
    assert bool(tree.declared("tenant-a")) is declared


def test_the_release_of_the_root_declares_for_the_root():
    raw = raw_release("tenant-root", budget(h100=4))
    assert raw["metadata"]["name"] == raw["metadata"]["namespace"] == "tenant-root"
    tree = tenancy.build(namespaces=[], releases=[tenants.decode_release(raw)], quotas=[])
    assert tree.declared("tenant-root") == {"gpu.cozystack.io/h100": 4}


def test_of_unreadable_budgets_only_those_of_gpu_keys_are_ours():
    found = tenancy.declaring(
        [a_release("tenant-a", {"example.com/nic": "x", "nvidia.com/x": "y", "nvidia.com/z": "z"})],
        [a_quota("tenant-b", of={"gpu.cozystack.io/gone": "x"})],
    )
    told = [(item.tenant, bad) for item, bad in tenancy.unreadable(found, {"nvidia.com/x"})]
    assert told == [
        ("tenant-a", {"nvidia.com/x": "'y' is not a quantity"}),
        ("tenant-b", {"gpu.cozystack.io/gone": "'x' is not a quantity"}),
    ]


@pytest.mark.parametrize(
    ("entitled", "tenant", "expected"),
    [
        pytest.param("tenant-a", "tenant-a", True, id="own label"),
        pytest.param("tenant-a", "tenant-a-b-c", True, id="inherited"),
        pytest.param("tenant-root", "tenant-z", True, id="inherited from the root"),
        pytest.param("tenant-a-b", "tenant-a", False, id="not from below"),
        pytest.param("tenant-a", "tenant-ab", False, id="a name that only begins alike"),
    ],
)
def test_entitlement_is_inherited_from_above(entitled, tenant, expected):
    tree = tenancy.build(
        namespaces=[a_namespace(entitled, entitled=True), a_namespace(tenant + "-x")],
        releases=[],
        quotas=[],
    )
    assert tree.is_entitled(tenant) is expected
