"""The control plane itself: what every other real test takes for granted."""

from devcluster.plane import ControlPlane


async def test_a_fresh_plane_serves_the_pinned_version(plane: ControlPlane):
    assert "Server Version: v1.37.2" in await plane.kubectl("version")


async def test_a_client_certificate_carries_user_and_groups(plane: ControlPlane):
    login = plane.kubeconfig_for("alice", ["tenant-a", "tenant-b"])
    said = await plane.kubectl(
        "auth",
        "whoami",
        "-o=jsonpath={.status.userInfo.username} {.status.userInfo.groups}",
        login=login,
    )
    assert said == 'alice ["tenant-a","tenant-b","system:authenticated"]'


async def test_a_service_account_logs_in_by_its_token(plane: ControlPlane):
    login = await plane.service_account_kubeconfig("default", "default")
    said = await plane.kubectl(
        "auth", "whoami", "-o=jsonpath={.status.userInfo.username}", login=login
    )
    assert said == "system:serviceaccount:default:default"


async def test_the_api_server_comes_back_with_what_it_had(fresh_plane: ControlPlane):
    await fresh_plane.kubectl("create", "configmap", "kept", "--from-literal=a=1")
    await fresh_plane.stop_api_server()
    assert not fresh_plane.is_running("kube-apiserver")
    await fresh_plane.start_api_server()
    assert await fresh_plane.kubectl("get", "cm", "kept", "-o=jsonpath={.data.a}") == "1"
