"""API servers in memory, as the canary meets them: they judge its questions by the stored policy."""

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from gpu import keys, ports
from gpu.cluster import errors
from gpu.objects import kinds
from policies import stored
from tests.fakes.cluster import FakeCluster

CANARY = "cozystack-gpu-canary-policy"
NAMESPACE = keys.SETTINGS_NAMESPACE
Json = Mapping[str, Any]


class Server:
    """One API server over a shared cluster; what it knows may be older than what is stored.

    Controls: `freeze`, `down`, `silences`, `deaf` (it asks no policy), `refusal` (by something
    else), `policy` and `binding` (older documents that it goes on with).
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.down = False
        self.silences = 0
        self.deaf = False
        self.refusal = ""
        self.policy: Json | None = None
        self.binding: Json | None = None
        self.asked: list[str] = []
        self._frozen: dict[str, Json] = {}

    async def freeze(self) -> None:
        """Stop following ConfigMaps: those there are stay as they are, others are read anew."""
        found = (await self.cluster.list_all(kinds.CONFIG_MAPS, NAMESPACE)).items
        self._frozen = {item["metadata"]["name"]: item for item in found}

    def outcome(self, error: Exception) -> ports.Outcome | None:
        return self.cluster.outcome(error)

    async def create(self, kind: Any, body: Json, **how: Any) -> Json:
        assert (kind, how["dry_run"]) == (kinds.CONFIG_MAPS, True)
        version = body["data"]["version"]
        self.asked.append(version)
        if self.down or self.silences:
            self.silences -= bool(self.silences)
            raise errors.Unreachable("connection refused", sent=False)
        if self.refusal:
            raise errors.Forbidden(403, "Forbidden", self.refusal)
        words = "" if self.deaf else await self._judge(version)
        if words:
            raise errors.Forbidden(403, "Forbidden", words)
        return body

    async def _judge(self, version: str) -> str:
        policy = self.policy or await stored.find(self.cluster, kinds.POLICIES, CANARY)
        binding = self.binding or await stored.find(self.cluster, kinds.POLICY_BINDINGS, CANARY)
        if policy is None or binding is None:
            return ""
        name = binding["spec"]["paramRef"]["name"]
        live = await stored.find(self.cluster, kinds.CONFIG_MAPS, name, NAMESPACE)
        param = self._frozen.get(name, live)
        if param is None or version == param["metadata"]["resourceVersion"]:
            return ""
        digest = re.findall(
            r"policies (\w+) read", policy["spec"]["validations"][0]["messageExpression"]
        )[0]
        return said(digest, name, param["metadata"]["resourceVersion"], version)


def said(digest: str, settings: str, version: str, asked: str) -> str:
    """Return the words of the canary's policy, as an API server wraps them."""
    return (
        f"configmaps \"{keys.CANARY_NAME}\" is forbidden: ValidatingAdmissionPolicy '{CANARY}' with "
        f"binding '{CANARY}' denied request: configmap cozy-system/{keys.CANARY_NAME}: policies "
        f"{digest} read {settings} at version {version}, not {asked}"
    )


def doors(usual: Any, **each: Any) -> ports.OpenDoors:
    """Return ways to API servers by name, and the usual one."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[ports.Doors]:
        yield ports.Doors(each=each, usual=usual, usual_name="usual:443")

    return opened
