"""KubeVirt's objects as they are changed for a plane: where webhooks call, what may be used, who writes."""

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devcluster import components, errors, kubevirt, kubevirt_objects
from gpu.cluster import errors as api
from gpu.objects import kinds


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_text("an authority")
    return path


def test_every_webhook_and_api_service_calls_the_port_and_trusts_the_authority(ca: Path):
    place = {"namespace": "cozy-kubevirt", "name": "virt-api"}
    hooks = [{"name": n, "clientConfig": {"service": {**place, "path": f"/{n}"}}} for n in "ab"]
    shipped: list[dict[str, Any]] = [
        {"kind": "ValidatingWebhookConfiguration", "webhooks": hooks},
        {"kind": "APIService", "spec": {"group": "g", "service": place}},
    ]
    bundle = base64.b64encode(b"an authority").decode()
    configuration, api_service = kubevirt_objects.routed(shipped, ca=ca, port=20001)
    assert [hook["clientConfig"] for hook in configuration["webhooks"]] == [
        {"caBundle": bundle, "service": {**place, "path": f"/{name}", "port": 20001}}
        for name in "ab"
    ]
    assert api_service["spec"] == {
        "group": "g",
        "caBundle": bundle,
        "service": {**place, "port": 20001},
    }
    assert "port" not in hooks[0]["clientConfig"]["service"]


@pytest.mark.parametrize(
    ("permitted", "listed"),
    [
        pytest.param(None, False, id="none-listed-any-may-be-asked-for"),
        pytest.param({}, True, id="an-empty-list-permits-nothing"),
        pytest.param(kubevirt.PERMITTED, True, id="the-usual"),
    ],
)
def test_settings_list_the_permitted_devices(permitted: Any, *, listed: bool):
    configuration = kubevirt_objects.settings(permitted)["spec"]["configuration"]
    assert ("permittedHostDevices" in configuration) is listed
    assert configuration.get("permittedHostDevices") == permitted


class Cluster:
    """Holds one object; notes what is written over it."""

    def __init__(self, found: dict[str, Any] | None) -> None:
        self.found = found
        self.written: list[tuple[str, Any]] = []

    async def create(self, _kind: Any, body: Any, **_: Any) -> Any:
        if self.found is not None:
            raise api.AlreadyExists(409, "AlreadyExists", "there already")
        self.written.append(("create", body))

    async def get(self, *_: Any) -> Any:
        return self.found

    async def update(self, _kind: Any, body: Any, **_: Any) -> Any:
        self.written.append(("update", body))


CRD = {
    "kind": kinds.CRDS.kind,
    "metadata": {"name": "virtualmachines.kubevirt.io"},
    "spec": {"group": "kubevirt.io"},
    "status": {"conditions": None},
}


async def test_what_is_not_there_is_created_without_a_status():
    cluster: Any = Cluster(None)
    await kubevirt_objects.write(cluster, [CRD])
    body = {key: value for key, value in CRD.items() if key != "status"}
    assert cluster.written == [("create", body)]


async def test_what_is_there_is_replaced_whole():
    cluster: Any = Cluster({"metadata": {"resourceVersion": "7"}, "spec": {"group": "g", "x": 1}})
    await kubevirt_objects.write(cluster, [CRD])
    ((verb, body),) = cluster.written
    assert (verb, body["spec"]) == ("update", CRD["spec"])
    assert body["metadata"] == {"name": "virtualmachines.kubevirt.io", "resourceVersion": "7"}


async def test_a_plane_that_routes_by_slices_is_refused():
    options = components.Options(aggregator_routing=True)
    cp: Any = SimpleNamespace(site=SimpleNamespace(options=options))
    admin: Any = None
    with pytest.raises(errors.DevclusterError, match="aggregator routing: start one without"):
        await kubevirt.install(cp, admin)


def test_it_is_the_version_that_the_module_asks_for():
    assert kubevirt.VERSION == "v1.8.4"
