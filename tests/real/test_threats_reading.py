"""Attacks by reading: other tenants' claims, counts, budgets and nodes, through every answer and past the front door."""

import json
import re
import ssl
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from devcluster import tenants
from gpu import keys
from gpu.cluster import client, credentials, errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import threat_site as threats
from tests.real.threat_site import ROLES, a_claim, attacker

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

ME = "tenant-top-me"
PARENT = "tenant-top"
SIBLING = "tenant-top-sib"
STRANGER = "tenant-far"
SECRETS = {
    "node": "hidden-node",
    "sibling": SIBLING,
    "stranger": STRANGER,
    "stranger's claim": "far-claim",
    "sibling's claim": "sib-claim",
    "parent's budget": "1971",
    "sibling's budget": "1613",
    "sibling's use": "1307",
    "stranger's use": "1211",
    "parent's use and promises": "1614",
}
"""What somebody of ME may never be told; numbers that nothing else comes to."""
STOCK = 3990 - 1 - 1307 - 1211
READ = ("options", "gpuoffers", "quotagates")
ASKED = ("orderreviews", "quotareviews")
JSON = {"Content-Type": "application/json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
ACCOUNTS = kinds.Kind("", "v1", "serviceaccounts", "ServiceAccount")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("threats-reading")) as opened:
        await opened.node("hidden-node", 3990)
        await opened.offer("h100")
        await opened.offer("unserved", "nvidia.com/NOWHERE")
        await opened.tenant(PARENT, total=1971)
        await opened.tenant(ME)
        await opened.tenant(SIBLING, total=1613)
        await opened.tenant(STRANGER)
        await opened.class_has("h100", 3990)
        for tenant, quotas in (
            (PARENT, {"total": 1971}),
            (SIBLING, {"total": 1613}),
            (STRANGER, {}),
        ):
            await opened.shown(tenant, "h100", **quotas)
        await opened.order(PARENT, "top-claim", "h100", 1)
        await opened.order(SIBLING, "sib-claim", "h100", 1307)
        await opened.order(STRANGER, "far-claim", "h100", 1211)
        for tenant, name in ((PARENT, "top"), (SIBLING, "sib"), (STRANGER, "far")):
            await opened.bound(tenant, f"{name}-claim")
        await opened.admin.create(ACCOUNTS, {"metadata": {"name": ME, "namespace": ME}})
        await sites.until(lambda: left(opened), sites.LATE, "what is left is known")
        yield opened


async def left(site):
    """Tell whether the tenant is told what its parent's budget leaves; not at once after it was made."""
    answer = await site.person(ME).raw("GET", path(ME, "quotagates/total"))
    return b'"remaining":357' in answer.body


def told(text):
    """Return which secrets a text tells."""
    return {
        what
        for what, secret in SECRETS.items()
        if re.search(rf"(?<![0-9a-z]){re.escape(secret)}(?![0-9a-z])", text)
    }


def payload(body):
    """Return the parts of an answer that are about something: no uid, no version, no time."""
    if isinstance(body, list):
        return [payload(one) for one in body]
    if not isinstance(body, dict):
        return body
    noise = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "continue"}
    return {key: payload(value) for key, value in body.items() if key not in noise}


def words_of(answer):
    """Return an answer's text; a watch's is one object a line."""
    lines = [line for line in answer.body.decode().splitlines() if line.strip()]
    try:
        return "\n".join(json.dumps(payload(json.loads(line))) for line in lines)
    except ValueError:
        return answer.body.decode()


def path(namespace, resource):
    home = f"/namespaces/{namespace}" if namespace else ""
    return f"{sites.CATALOG}{home}/{resource}"


async def test_the_secrets_would_be_found():
    assert told('{"hard":1971} on hidden-node') == {"parent's budget", "node"}
    assert told("11971 19710 my-hidden-nodes") == set()


@pytest.mark.parametrize("resource", READ)
async def test_what_is_read_tells_no_secret(site, resource):
    for role in ("view", "account"):
        them = attacker(site, ME, role)
        for query, headers in (("", {}), ("", TABLE), ("?watch=true&timeoutSeconds=1", {})):
            answer = await them.raw("GET", path(ME, resource) + query, headers=headers)
            assert answer.status == 200, answer.body
            assert len(answer.body) > 2
            assert told(words_of(answer)) == set(), (role, query)
        for item in json.loads((await them.raw("GET", path(ME, resource))).body)["items"]:
            one = await them.raw("GET", path(ME, f"{resource}/{item['metadata']['name']}"))
            assert one.status == 200
            assert told(words_of(one)) == set()


async def test_a_watch_that_runs_while_others_order_tells_no_secret(site):
    """It tells that the stock changed, as any shop's does."""
    async with threats.listening(site.person(ME, "view"), ME, READ) as said:

        async def tells(stock):
            h100 = [it for it in said["gpuoffers"] if it["metadata"].get("name") == "h100"]
            return [it["status"]["free"] for it in h100[-1:]] == [stock]

        await sites.until(lambda: tells(STOCK), sites.LATE, "the stock told")
        await site.order(STRANGER, "one-more", "h100", 1)
        await sites.until(lambda: tells(STOCK - 1), sites.LATE, "that the stock changed told")
        await threats.given_back(site, STRANGER, ["one-more"])
        await sites.until(lambda: tells(STOCK), sites.LATE, "that it changed back told")
    for resource in READ:
        assert said[resource]
        assert told(json.dumps(payload(said[resource]))) == set(), resource


COUNTS = (1, 356, 357, 358, 1481, 1482, 1972, 4000, 2**31 - 1)


@pytest.mark.parametrize("class_name", ["h100", "unserved", "no-such-class"])
async def test_a_refused_order_tells_no_secret(site, class_name):
    """By the webhook and by the review; the numbers of budgets above are what they leave."""
    seen = set()
    for count in COUNTS:
        body = a_claim("probe", ME, class_name, count)
        words = await threats.said(site.person(ME).create(kinds.GPU_CLAIMS, body, dry_run=True))
        review = {"spec": {"className": class_name, "count": count}}
        answer = await asked(site.person(ME, "view"), "OrderReview", "orderreviews", review)
        assert told(words) == told(answer) == set(), count
        seen.add(threats.guard(words))
    assert seen <= {threats.PASSED, "webhook orders"}
    assert "webhook orders" in seen


async def test_what_a_budget_above_leaves_is_told_and_no_more(site):
    body = a_claim("probe", ME, count=358)
    words = await threats.said(site.person(ME).create(kinds.GPU_CLAIMS, body, dry_run=True))
    assert f"the budget of {PARENT} for {keys.QUOTA_TOTAL} leaves 357 to this tenant" in words
    assert not set(re.findall(r"\d+", words)) - {"358", "357", "100"}


QUOTAS = (
    {keys.QUOTA_TOTAL: 1},
    {keys.QUOTA_TOTAL: 5000},
    {keys.QUOTA_TOTAL: -1},
    {"gpu.cozystack.io/h100": 5000, "gpu.cozystack.io/nothing": 1},
    {sites.H100: 5},
)


@pytest.mark.parametrize("quotas", QUOTAS, ids=str)
async def test_a_refused_grant_tells_no_secret(site, quotas):
    seen = []
    for name in ("kid", "sib", "far", "top"):
        meta = {"name": name, "namespace": ME}
        body = {"metadata": meta, "spec": {"resourceQuotas": quotas}}
        them = site.person(ME, "super-admin")
        words = await threats.said(them.create(tenants.TENANTS, body, dry_run=True))
        review = {"spec": {"childName": name, "resourceQuotas": quotas}}
        answer = await asked(site.person(ME, "view"), "QuotaReview", "quotareviews", review)
        assert told(words) == told(answer) == set(), name
        seen.append(threats.guard(words))
    assert set(seen) <= {threats.PASSED, "webhook tenants"}


async def asked(them, kind, resource, body):
    about = {"apiVersion": f"{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}", "kind": kind}
    sent = json.dumps({**about, **body}).encode()
    answer = await them.raw("POST", path(ME, resource), body=sent, headers=JSON)
    assert answer.status == 201, answer.body
    return words_of(answer)


async def test_events_in_the_own_namespace_tell_no_secret(site):
    await site.order(ME, "mine", "h100", 1)
    await site.bound(ME, "mine")

    async def events():
        answer = await site.person(ME, "view").raw("GET", f"/api/v1/namespaces/{ME}/events")
        assert answer.status == 200
        return answer if b'"name":"mine"' in answer.body else None

    answer = await sites.until(events, sites.LATE, "an Event on the claim")
    # The node of its own claim is its own to know.
    assert told(words_of(answer)) - {"node"} == set()
    await threats.given_back(site, ME, ["mine"])


async def test_a_class_that_everybody_orders_tells_its_stock_and_nobodys_share(site):

    async def is_told():
        offer = (await site.served(ME, "gpuoffers/h100"))["status"]
        return (offer["free"], offer["orderable"]) == (STOCK, 357)

    await sites.until(is_told, sites.LATE, "the stock, and what its budgets leave")


@pytest.mark.parametrize("role", ROLES)
async def test_no_role_reads_beyond_its_tenant(site, role):
    """Of all namespaces, of another's, of the parent's: lists, watches, names, questions."""
    them = attacker(site, ME, role)
    foreign = [STRANGER, SIBLING, *([] if role == "ancestor's account" else [PARENT])]
    if role == "ancestor's account":  # of PARENT: SIBLING is below it
        foreign.remove(SIBLING)
    tries = [("GET", path(None, one)) for one in READ]
    tries += [("GET", f"{path(None, one)}?watch=true&timeoutSeconds=1") for one in READ]
    for home in foreign:
        tries += [("GET", path(home, one)) for one in READ]
        tries += [("GET", f"{path(home, one)}?watch=1&timeoutSeconds=1") for one in READ]
        tries += [
            ("GET", f"{path(None, one)}?fieldSelector=metadata.namespace%3D{home}") for one in READ
        ]
        tries += [
            ("GET", path(home, f"quotagates/{keys.TOTAL}")),
            ("GET", path(home, "gpuoffers/h100")),
        ]
        tries += [("POST", path(home, one)) for one in ASKED]
        tries += [("GET", f"/apis/gpu.cozystack.io/v1alpha1/namespaces/{home}/gpuclaims")]
        tries += [("GET", f"/apis/cozystack.io/v1alpha1/namespaces/{home}/workloads")]
    selected = "fieldSelector=status.nodeName%3Dhidden-node"
    tries += [
        ("GET", f"/apis/gpu.cozystack.io/v1alpha1/{one}")
        for one in ("gpuclaims", f"gpuclaims?{selected}", "gpunodes", "gpubinders", "gpuclasses")
    ]
    tries += [
        ("GET", f"/api/v1/{one}")
        for one in ("nodes", "nodes/hidden-node", "namespaces/cozy-system/configmaps")
    ]
    for method, where in tries:
        body = b"{}" if method == "POST" else None
        answer = await them.raw(method, where, body=body, headers=JSON if body else {})
        assert answer.status == 403, (where, answer.status, answer.body)
        name = re.sub(r"(/namespaces/|/nodes/|%3D)[^/?]*", r"\1", answer.body.decode())
        assert told(name) <= told(where), where


@asynccontextmanager
async def direct(site, *, token=None, pair=None, identity="replica-1"):
    """Open a client of our own port, past kube-apiserver."""
    tls = ssl.create_default_context(cafile=str(site.cp.pki.ext_ca.crt))
    if pair is not None:
        tls.load_cert_chain(pair.crt, pair.key)
    access = credentials.fixed(site.product.replicas[identity].url, tls=tls, token=token)
    async with client.Client(access) as found:
        yield found


FORGED = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
CLOSED = (
    "/metrics",
    "/readyz/anything",
    "/openapi/v2",
    path(STRANGER, "quotagates"),
    path(None, "gpuoffers"),
)


@pytest.mark.parametrize("headers", [{}, FORGED], ids=["plain", "forged"])
async def test_our_port_answers_nobody_whom_kube_apiserver_does_not_vouch_for(site, headers):
    async with direct(site) as nobody:
        for where in CLOSED:
            answer = await nobody.raw("GET", where, headers=headers)
            assert (answer.status, told(words_of(answer)) - {"stranger"}) == (403, set()), where
            assert 'User "system:anonymous" cannot' in json.loads(answer.body)["message"]


async def test_a_forged_header_beside_a_certificate_or_token_changes_nobodys_name(site):
    now = sites.now()
    server = site.cp.pki.sign_server("not-a-client", names=["localhost"], now=now)
    for headers in ({}, FORGED):
        with pytest.raises(errors.Unreachable):  # the connection is cut in its handshake
            async with direct(site, pair=server) as them:
                await them.raw("GET", path(STRANGER, "quotagates"), headers=headers)
    person = site.cp.pki.sign_client("person", user="p", groups=[f"{ME}-admin"], now=now)
    token = (await site.cp.kubectl("create", "token", ME, f"--namespace={ME}")).strip()
    for how in ({"pair": person}, {"token": token}):
        async with direct(site, **how) as them:
            own = await them.raw("GET", path(ME, "quotagates"), headers=FORGED)
            assert own.status == 200, own.body
            assert told(words_of(own)) == set()
            for where in (path(STRANGER, "quotagates"), path(None, "gpuoffers"), "/metrics"):
                answer = await them.raw("GET", where, headers=FORGED)
                assert answer.status == 403, where
                assert "root" not in json.loads(answer.body)["message"]


async def post(them, hook, review, headers=None):
    sent = {**JSON, **(headers or {})}
    return await them.raw("POST", f"/admission/{hook}", body=review, headers=sent)


async def post_order(them, tenant, headers=None):
    order = threats.an_admission(
        kinds.GPU_CLAIMS, a_claim("probe", tenant, count=5000), dry_run=False
    )
    return await post(them, "orders", order, headers)


async def post_grant(them, tenant, units, *, dry_run=False, headers=None):
    quotas = {"resourceQuotas": {keys.QUOTA_TOTAL: units}}
    body = {"metadata": {"name": "kid", "namespace": tenant}, "spec": quotas}
    grant = threats.an_admission(tenants.TENANTS, body, dry_run=dry_run)
    return await post(them, "tenants", grant, headers)


async def test_who_reaches_our_port_is_told_by_a_webhook_what_the_tenant_would_be(site):
    """Not defended here, as docs/threats.md says: a network policy, or `webhookCallers`, is."""
    async with direct(site) as nobody:
        answer = await post_order(nobody, SIBLING)
        assert answer.status == 200
        words = words_of(answer)
        assert '"allowed": false' in words
        assert "1613" in words
        assert (
            told(words) & {"node", "sibling's claim", "stranger's claim", "parent's budget"}
            == set()
        )
    before = {claim["metadata"]["uid"] for claim in await site.claims()}
    assert len(before) == 3


async def reserved(site, tenant):
    """Return for which children units of a tenant are reserved."""
    page = await site.admin.list_all(kinds.CONFIG_MAPS, keys.SETTINGS_NAMESPACE)
    name = f"{keys.RESERVED_PREFIX}{tenant}"
    found = (one.get("data") for one in page.items if one["metadata"]["name"] == name)
    return {child for data in found for child in data or ()}


async def test_who_reaches_our_port_has_units_reserved_and_nothing_granted_or_held(site):
    """Not defended either: for half a minute the parent may grant less; orders do not notice."""
    async with direct(site) as nobody:
        assert '"allowed": true' in words_of(await post_grant(nobody, PARENT, 350, dry_run=True))
        assert f"{PARENT}-kid" not in await reserved(site, PARENT)
        assert '"allowed": true' in words_of(await post_grant(nobody, PARENT, 350))
        assert '"allowed": false' in words_of(await post_grant(nobody, PARENT, 358))
    assert f"{PARENT}-kid" in await reserved(site, PARENT)
    await site.order(ME, "all-the-same", "h100", 357)
    await site.bound(ME, "all-the-same")
    assert await threats.pool(site, PARENT) == 1 + 1307 + 357
    await threats.given_back(site, ME, ["all-the-same"])


async def test_with_callers_named_nobody_else_is_answered_by_a_webhook(site):
    caller = "system:kube-apiserver"
    await site.product.start("replica-2", flags=(*sites.FAST, f"--admission-callers={caller}"))
    now = sites.now()
    ours = site.cp.pki.sign_client("caller", user=caller, groups=[], now=now)
    person = site.cp.pki.sign_client("someone", user="p", groups=[f"{ME}-admin"], now=now)
    claimed = {"X-Remote-User": caller, "X-Remote-Group": "system:masters"}
    for pair in (None, person):
        async with direct(site, pair=pair, identity="replica-2") as them:
            for headers in ({}, claimed):
                for answer in (
                    await post_order(them, SIBLING, headers=headers),
                    await post_grant(them, STRANGER, 1, headers=headers),
                ):
                    assert answer.status == 403, answer.body
                    assert "may not call webhooks" in answer.body.decode()
                    assert told(words_of(answer)) == set()
    assert f"{STRANGER}-kid" not in await reserved(site, STRANGER)
    async with direct(site, pair=ours, identity="replica-2") as them:
        assert (await post_order(them, SIBLING)).status == 200
    await site.product.stop("replica-2")
