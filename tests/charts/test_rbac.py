"""Who may do what: the process exactly what its code does, tenants never a status."""

from collections.abc import Iterator

import pytest

from apiserver import teardown
from gpu import keys
from gpu.cluster.caches import WATCHED
from gpu.config import Config
from gpu.objects import kinds
from tests.charts.granted import (
    API_SERVERS,
    FACADE,
    LEADER,
    NODE_LEASES,
    PROCESS,
    READ,
    REQUESTED,
    SETTINGS,
    Granted,
)
from tests.charts.rendering import Chart, Json

pytestmark = pytest.mark.real

Grant = tuple[str, str, tuple[str, ...]]
"""Resource as `plural.group`, verb, and the names it is limited to."""

CATALOG = ("options", "gpuoffers", "quotagates", "explanations")
VIEW = {
    ("gpuclaims.gpu.cozystack.io", ()): READ,
    **{(f"{name}.catalog.gpu.cozystack.io", ()): READ for name in CATALOG},
    ("orderreviews.catalog.gpu.cozystack.io", ()): ("create",),
    ("quotareviews.catalog.gpu.cozystack.io", ()): ("create",),
}
ADMIN = {("gpuclaims.gpu.cozystack.io", ()): ("create", "delete")}
HOSTER = {
    ("gpuclasses.gpu.cozystack.io", ()): (*READ, "create", "update", "patch", "delete"),
    ("gpuclaims.gpu.cozystack.io", ()): READ,
    ("gpunodes.gpu.cozystack.io", ()): (*READ, "patch"),
    ("gpubinders.gpu.cozystack.io", ()): (*READ, "patch"),
    **{(f"{name}.catalog.gpu.cozystack.io", ()): READ for name in CATALOG},
    ("drainplans.catalog.gpu.cozystack.io", ()): ("get", "list"),
    ("orderreviews.catalog.gpu.cozystack.io", ()): ("create",),
    ("quotareviews.catalog.gpu.cozystack.io", ()): ("create",),
    ("whatifs.catalog.gpu.cozystack.io", ()): ("create",),
}


def grants(role: Json) -> Iterator[Grant]:
    """Yield what a role grants, one verb of one resource at a time."""
    for rule in role["rules"]:
        names = tuple(rule.get("resourceNames", ()))
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield (f"{resource}.{group}" if group else resource, verb, names)


def granted(role: Json) -> Granted:
    found: Granted = {}
    for resource, verb, names in grants(role):
        found[resource, names] = (*found.get((resource, names), ()), verb)
    return found


def roles(chart: Chart) -> list[Json]:
    return [doc for doc in chart.render() if doc["kind"] in {"ClusterRole", "Role"}]


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("ClusterRole", "cozystack-gpu", PROCESS),
        ("Role", "cozystack-gpu-leader", LEADER),
        ("Role", "cozystack-gpu-node-leases", NODE_LEASES),
        ("Role", "cozystack-gpu-settings", SETTINGS),
        ("Role", "cozystack-gpu-api-servers", API_SERVERS),
        ("ClusterRole", "cozy:gpu:view", VIEW),
        ("ClusterRole", "cozy:gpu:admin", ADMIN),
        ("ClusterRole", "cozy:gpu:hoster", HOSTER),
    ],
)
def test_a_role_grants_this_and_no_more(chart: Chart, kind: str, name: str, expected: Granted):
    assert granted(chart.one(kind, name)) == expected


def test_there_are_no_other_roles(chart: Chart):
    assert sorted(role["metadata"]["name"] for role in roles(chart)) == [
        "cozy:gpu:admin",
        "cozy:gpu:hoster",
        "cozy:gpu:view",
        "cozystack-gpu",
        "cozystack-gpu-api-servers",
        "cozystack-gpu-leader",
        "cozystack-gpu-node-leases",
        "cozystack-gpu-settings",
    ]


def test_the_facade_may_act_as_anybody_and_nothing_else_may(chart: Chart):
    """Told in docs/api.md: the host believes whoever may impersonate."""
    rights = granted(chart.one("ClusterRole", "cozystack-gpu-facade", "hostOptions.mode=facade"))
    assert rights == FACADE
    able = {
        role["metadata"]["name"]
        for role in roles(chart)
        for _, verb, _ in grants(role)
        if verb == "impersonate"
    }
    assert able == set()


def test_what_networks_ask_for_is_read_only_where_starts_are_requested(chart: Chart):
    assert (
        granted(chart.one("ClusterRole", "cozystack-gpu", "binding=request")) == PROCESS | REQUESTED
    )


def test_no_role_has_a_wildcard(chart: Chart):
    wild = [
        (role["metadata"]["name"], resource, verb)
        for role in roles(chart)
        for resource, verb, _ in grants(role)
        if "*" in resource or "*" in verb
    ]
    assert wild == []


def test_no_role_of_people_grants_a_status(chart: Chart):
    writers = {
        role["metadata"]["name"]
        for role in roles(chart)
        for resource, _, _ in grants(role)
        if "/" in resource
    }
    assert writers == {"cozystack-gpu"}


def test_tenants_get_their_roles_by_the_hosts_labels(chart: Chart):
    labels = {
        role["metadata"]["name"]: sorted(
            label.removeprefix("rbac.cozystack.io/")
            for label, value in role["metadata"]["labels"].items()
            if label.startswith("rbac.cozystack.io/") and value == "true"
        )
        for role in roles(chart)
    }
    assert {name: found for name, found in labels.items() if found} == {
        "cozy:gpu:view": ["aggregate-to-tenant", "aggregate-to-tenant-view"],
        "cozy:gpu:admin": ["aggregate-to-tenant", "aggregate-to-tenant-admin"],
    }


@pytest.mark.parametrize("row", WATCHED, ids=lambda row: row.kind.resource)
def test_every_watched_kind_may_be_followed(chart: Chart, row):
    role = chart.one("ClusterRole", "cozystack-gpu")
    if row.scope.namespace:
        assert row.scope.namespace == keys.SETTINGS_NAMESPACE
        role = chart.one("Role", "cozystack-gpu-settings")
    one = (row.scope.field_selector or "").removeprefix("metadata.name=")
    rights = granted(role)
    verbs = [rights.get((row.kind.resource, names), ()) for names in ((), (one,))]
    assert {"list", "watch"} <= {verb for found in verbs for verb in found}


def test_the_code_and_the_chart_mean_the_same_objects(chart: Chart):
    config = Config()
    chart.one("ServiceAccount", config.service_account)
    chart.one("ClusterRole", config.owner_cluster_role)
    service = chart.one("APIService", teardown.API_SERVICE)["spec"]
    assert (service["group"], service["version"]) == (keys.CATALOG_GROUP, keys.CATALOG_VERSION)
    settings = chart.one("Role", "cozystack-gpu-settings", namespace="elsewhere")
    assert settings["metadata"]["namespace"] == keys.SETTINGS_NAMESPACE
    leader = chart.one("Role", "cozystack-gpu-leader", namespace="elsewhere")
    assert leader["metadata"]["namespace"] == "elsewhere"
    crds = [doc for doc in chart.render() if doc["kind"] == "CustomResourceDefinition"]
    assert sorted(doc["metadata"]["name"] for doc in crds) == sorted(
        kind.resource
        for kind in (kinds.GPU_BINDERS, kinds.GPU_CLAIMS, kinds.GPU_CLASSES, kinds.GPU_NODES)
    )


def test_every_binding_is_of_our_account_or_of_the_hosters(chart: Chart):
    docs = chart.render(namespace="elsewhere")
    bindings = {
        (doc["metadata"].get("namespace", ""), doc["metadata"]["name"]): (
            doc["roleRef"]["kind"],
            doc["roleRef"]["name"],
            [(s["kind"], s.get("namespace", ""), s["name"]) for s in doc["subjects"]],
        )
        for doc in docs
        if doc["kind"] in {"ClusterRoleBinding", "RoleBinding"}
    }
    account = [("ServiceAccount", "elsewhere", "cozystack-gpu")]
    reader = "extension-apiserver-authentication-reader"
    assert bindings == {
        ("", "cozystack-gpu"): ("ClusterRole", "cozystack-gpu", account),
        ("", "cozystack-gpu:system:auth-delegator"): (
            "ClusterRole",
            "system:auth-delegator",
            account,
        ),
        ("", "cozy:gpu:hoster"): (
            "ClusterRole",
            "cozy:gpu:hoster",
            [("Group", "", "cozystack-cluster-admin")],
        ),
        ("kube-system", "cozystack-gpu-auth-reader"): ("Role", reader, account),
        ("default", "cozystack-gpu-api-servers"): ("Role", "cozystack-gpu-api-servers", account),
        ("elsewhere", "cozystack-gpu-leader"): ("Role", "cozystack-gpu-leader", account),
        ("cozy-system", "cozystack-gpu-settings"): ("Role", "cozystack-gpu-settings", account),
        ("kube-node-lease", "cozystack-gpu-node-leases"): (
            "Role",
            "cozystack-gpu-node-leases",
            account,
        ),
    }


def test_hosters_are_named_by_the_values(chart: Chart):
    bound = chart.one("ClusterRoleBinding", "cozy:gpu:hoster", "rbac.hosterGroups={a,b}")
    assert [subject["name"] for subject in bound["subjects"]] == ["a", "b"]
    names = [
        doc["metadata"]["name"]
        for doc in chart.render("rbac.hosterGroups=null")
        if doc["kind"] == "ClusterRoleBinding"
    ]
    assert "cozy:gpu:hoster" not in names
