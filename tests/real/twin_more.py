"""More questions to the twins: the kinds without a namespace, the other kinds, and what somebody may not."""

from typing import Final

from tests.real import twin_rows as rows
from tests.real.twin_rows import Row

PLANS: Final = "{home}/drainplans"
_PLAN_PATHS: Final = {
    "list": "",
    "get": "/gpu-1",
    "get what is not there": "/absent",
    "get a status": "/gpu-1/status",
    "get pretty": "/gpu-1?pretty=true",
    "fields name": "?fieldSelector=metadata.name%3Dgpu-1",
    "fields no name": "?fieldSelector=metadata.name!%3Dgpu-1",
    "fields namespace": "?fieldSelector=metadata.namespace%3Dx",
    "fields unknown": "?fieldSelector=spec.nodeName%3Dgpu-1",
    "labels": "?labelSelector=a%3Db",
    "labels exist not": "?labelSelector=!a",
    "labels unclosed": "?labelSelector=a+in+(",
}
_PLAN_QUERIES: Final = {
    name: f"?{query}".replace("{page}", "{plans page}")
    for name, query in {**rows.PAGES, **rows.VERSIONS}.items()
}
_TYPED: Final = {"Content-Type": rows.JSON}
_LOSE: Final = {"loseNode": {"nodeName": "gpu-1"}}
_WHAT_IFS: Final = {
    "whole": rows.body(kind="WhatIf", metadata={"name": "asked"}, spec=_LOSE),
    "with a namespace": rows.body(
        kind="WhatIf", metadata={"name": "asked", "namespace": "tenant-twin"}, spec=_LOSE
    ),
    "of another kind": rows.body(kind="DrainPlan", metadata={"name": "asked"}, spec=_LOSE),
    "without spec": rows.body(kind="WhatIf", metadata={"name": "asked"}, spec=None),
    "a node without a name": rows.body(
        kind="WhatIf", metadata={"name": "asked"}, spec={"loseNode": {"nodeName": ""}}
    ),
    "count of 0": rows.body(
        kind="WhatIf",
        metadata={"name": "asked"},
        spec={"addNodes": {"like": "gpu-1", "count": 0}},
    ),
    "nothing": "",
}


def _plans() -> list[Row]:
    paths = {**_PLAN_PATHS, **_PLAN_QUERIES}
    found = [Row(f"plans: {name}", PLANS + tail) for name, tail in paths.items()]
    found += rows.accepts("plans: as", PLANS, {**rows.LIST_ACCEPTS})
    found += rows.accepts("plan: as", f"{PLANS}/gpu-1", rows.ONE_ACCEPTS)
    inside = "{home}/namespaces/tenant-twin/drainplans"
    found += [
        Row("plans: in a namespace", inside),
        Row("plans: in a namespace, one", f"{inside}/gpu-1"),
        Row("plans: watch", f"{PLANS}?watch=true&timeoutSeconds=1"),
        Row("plans: delete", f"{PLANS}/gpu-1?dryRun=All", "DELETE"),
        Row("plans: create", f"{PLANS}?dryRun=All", "POST", _TYPED, "{}"),
        Row("plans: head", PLANS, "HEAD"),
    ]
    return found


def _what_ifs() -> list[Row]:
    path = "{home}/whatifs?dryRun=All"
    found = [
        Row(f"what-if {name}", path, "POST", _TYPED, text.replace("GROUP", "{group}"))
        for name, text in _WHAT_IFS.items()
    ]
    whole = found[0].body
    for accept in (rows.TABLE, rows.PARTIAL, rows.PARTIAL_LIST, "application/yaml", "text/html"):
        sent = {**_TYPED, "Accept": accept}
        found.append(Row(f"what-if, answered as {accept}", path, "POST", sent, whole))
    inside = "{home}/namespaces/tenant-twin/whatifs?dryRun=All"
    found.append(Row("what-if in a namespace", inside, "POST", _TYPED, whole))
    return found


def _others() -> list[Row]:
    """Return a few of the questions for each kind that is as `gpuoffers` in all but its content."""
    found = []
    names = {"explanations": "wait-one", "options": "gpuclass", "quotagates": "total"}
    for plural, name in names.items():
        path = "{home}/namespaces/tenant-twin/" + plural
        tails = {
            "list": "",
            "get": f"/{name}",
            "get what is not there": "/absent",
            "two a page": "?limit=1",
            "fields name": f"?fieldSelector=metadata.name%3D{name}",
            "fields unknown": "?fieldSelector=spec.x%3D1",
            "labels": "?labelSelector=gpu.cozystack.io/source%3Dgpu",
            "labels exist": "?labelSelector=gpu.cozystack.io/gate",
            "watch": "?watch=true&timeoutSeconds=1",
            "streaming list": "?watch=true&timeoutSeconds=1" + rows.WATCHES["streaming list"],
            "nowhere": "",
        }
        for said, tail in tails.items():
            where = path.replace("tenant-twin", "nowhere") if said == "nowhere" else path
            found.append(Row(f"{plural}: {said}", where + tail))
        found += rows.accepts(f"{plural} as", path, {"metadata": rows.PARTIAL_LIST})
    return found


def _refused() -> list[Row]:
    """Return what a tenant may not, nobody may, and a credential that is none."""
    other = "{home}/namespaces/tenant-without"
    ask = rows.BODIES["whole"].replace("GROUP", "{group}")
    what_if = _WHAT_IFS["whole"].replace("GROUP", "{group}")
    found = []
    for user in ("tenant", ""):
        who = f"refused {user or 'nobody'}:"
        found += [
            Row(f"{who} {plural} of another", f"{other}/{plural}", user=user)
            for plural in ("gpuoffers", "explanations", "options", "quotagates")
        ]
        found += [
            Row(f"{who} one of another", f"{other}/gpuoffers/h100", user=user),
            Row(f"{who} what is not there of another", f"{other}/gpuoffers/absent", user=user),
            Row(f"{who} watch of another", f"{other}/gpuoffers?watch=true", user=user),
            Row(f"{who} a bad selector", f"{other}/gpuoffers?labelSelector=a+in+(", user=user),
            Row(f"{who} of all", "{home}/gpuoffers", user=user),
            Row(f"{who} plans", PLANS, user=user),
            Row(f"{who} a plan", f"{PLANS}/gpu-1", user=user),
            Row(f"{who} ask of another", f"{other}/orderreviews", "POST", _TYPED, ask, user),
            Row(f"{who} what-if", "{home}/whatifs", "POST", _TYPED, what_if, user),
            Row(f"{who} delete", f"{other}/gpuoffers/h100?dryRun=All", "DELETE", user=user),
            Row(
                f"{who} as a table", f"{other}/gpuoffers", headers={"Accept": rows.TABLE}, user=user
            ),
        ]
    for name, said in (("token", "Bearer nonsense"), ("token that is empty", "Bearer ")):
        found.append(
            Row(f"refused: a {name}", "{offers}", headers={"Authorization": said}, user="")
        )
    return found


ROWS: Final = (*rows.ROWS, *_plans(), *_what_ifs(), *_others(), *_refused())
"""Every question; none changes anything."""
