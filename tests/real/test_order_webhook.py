"""The order webhook on a real control plane: what a tenant is told, races, and who is not concerned."""

import asyncio
import json

import pytest
import pytest_asyncio

from devcluster import chart, tenants
from devcluster.errors import CommandError
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real.order_site import A, a_claim, all_free, given_back, refused, says, taken_at_once

pytestmark = pytest.mark.asyncio(loop_scope="module")

POOR = "tenant-poor"
L40S = "nvidia.com/AD102GL_L40S"
RACED = "nvidia.com/RACED"
GROWN = "nvidia.com/GROWN"
DENIED = 'admission webhook "orders.gpu.cozystack.io" denied the request: '


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("order-webhook")) as opened:
        await opened.node("gpu-1", 8)
        await opened.node("gpu-2", 16, L40S)
        await opened.node("gpu-3", 10, RACED)
        await opened.offer("h100", maxCount=12)
        await opened.offer("l40s", L40S)
        await opened.offer("raced", RACED)
        await opened.tenant(A)
        await opened.tenant(POOR, total=2)
        # What is taken, and what is told beside a refusal, is not read past the caches.
        await all_free(opened)
        await opened.shown(POOR, total=2)
        yield opened


async def kubectl(site, body, *words, tenant=A):
    """What kubectl prints to a tenant who creates an object; raises CommandError with what it says."""
    groups = [tenants.group(tenant, "admin"), "system:authenticated"]
    who = [f"--as=somebody@{tenant}", *(f"--as-group={group}" for group in groups)]
    return await site.cp.kubectl("create", "--filename=-", *who, *words, stdin=json.dumps(body))


async def names(site, tenant=A):
    page = await site.admin.list_all(kinds.GPU_CLAIMS, tenant)
    return {item["metadata"]["name"] for item in page.items}


async def test_kubectl_prints_why_and_what_would_be_accepted(site):
    with pytest.raises(CommandError) as caught:
        await kubectl(site, a_claim())
    assert str(caught.value).endswith(
        f'failed: Error from server (Forbidden): error when creating "STDIN": {DENIED}'
        "order big: 9 units of class h100 asked, 8 free to order: order at most 8 or wait until "
        "units are given back; at most 8 would be accepted now; class l40s would take all 9"
    )
    assert await names(site) == set()


async def test_every_reason_is_a_cause_with_its_field(site):
    error = await refused(site, a_claim("much", count=13, tenant=POOR))
    told = [(cause.reason, cause.field) for cause in error.details.causes]
    assert told == [
        ("OverMaxCount", "spec.count"),
        ("NoFreeUnits", "spec.count"),
        ("OverBudget", "spec.count"),
    ]
    assert (error.details.name, error.details.kind) == ("much", "gpuclaims")
    assert "budget gpu.cozystack.io/total of tenant-poor is 2 and 0 are used" in str(error)
    assert "; at most 2 would be accepted now" in str(error)


async def test_what_would_be_accepted_is_accepted_and_bound(site):
    await site.person(A).create(kinds.GPU_CLAIMS, a_claim("most", count=8))
    assert await site.bound(A, "most") == "gpu-1"
    await given_back(site, "most")
    await site.person(A).create(kinds.GPU_CLAIMS, a_claim("other", "l40s", 9))
    assert await site.bound(A, "other") == "gpu-2"
    await given_back(site, "other")


async def test_a_dry_run_is_answered_alike_and_writes_nothing(site):
    said = await refused(site, a_claim(), dry_run=True)
    assert str(said) == str(await refused(site, a_claim()))
    await site.person(A).create(kinds.GPU_CLAIMS, a_claim("dry", count=8), dry_run=True)
    assert await names(site) == set()


async def test_an_order_right_after_its_class_and_node_is_not_refused_for_them(site):
    """`kubectl apply` of a folder: what is on its way to a cache counts."""
    for number in range(5):
        resource = f"nvidia.com/NEW_{number}"
        await site.node(f"new-{number}", 1, resource)
        await site.offer(f"new-{number}", resource)
        await taken_at_once(site, a_claim(f"new-{number}", f"new-{number}", 1))
    for number in range(5):
        await site.bound(A, f"new-{number}")
    await given_back(site, *(f"new-{number}" for number in range(5)))


async def test_an_order_right_after_its_class_is_never_refused_for_that(site):
    for number in range(30):
        await site.offer(f"made-{number}")
        await taken_at_once(site, a_claim("asked", f"made-{number}", 1), dry_run=True)
    for number in range(30):
        await site.admin.delete(kinds.GPU_CLASSES, f"made-{number}")


async def test_an_order_right_after_a_node_with_room_is_never_refused_for_room(site):
    await site.offer("grown", GROWN)
    for number in range(10):
        await site.node(f"grown-{number}", number + 1, GROWN)
        await taken_at_once(site, a_claim("asked", "grown", number + 1), dry_run=True)
    await site.admin.delete(kinds.GPU_CLASSES, "grown")


async def test_an_order_right_after_units_are_given_back_is_never_refused_for_them(site):
    for number in range(10):
        await taken_at_once(site, a_claim(f"held-{number}", "raced", 10))
        await site.bound(A, f"held-{number}")
        full = a_claim("next", "raced", 10)
        await sites.until(lambda full=full: says(site, full, "0 free"), 25, "nothing free")
        await given_back(site, f"held-{number}", at_once=True)


async def test_an_order_right_after_a_larger_budget_is_never_refused_for_the_old_one(site):
    for units in range(3, 9):
        body = a_claim("asked", count=units, tenant=POOR)
        assert f"budget {keys.QUOTA_TOTAL} of {POOR} is {units - 1}" in str(
            await refused(site, body)
        )
        await tenants.set_quotas(site.admin, POOR, {keys.QUOTA_TOTAL: units})
        await taken_at_once(site, body, dry_run=True)
    await tenants.set_quotas(site.admin, POOR, {keys.QUOTA_TOTAL: 2})


async def test_an_order_without_a_name_is_called_by_its_prefix_or_by_the_name_it_got(site):
    body = a_claim()
    body["metadata"] = {"generateName": "big-", "namespace": A}
    assert f"{DENIED}order big-" in str(await refused(site, body))
    body["spec"]["count"] = 1
    made = await site.person(A).create(kinds.GPU_CLAIMS, body)
    name = made["metadata"]["name"]
    assert name.startswith("big-")
    await site.bound(A, name)
    await given_back(site, name)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"className": "h100", "count": 0}, id="count-of-none"),
        pytest.param({"className": "h100", "count": "9"}, id="count-is-text"),
        pytest.param({"className": "h100"}, id="no-count"),
    ],
)
async def test_what_does_not_fit_the_schema_is_told_by_the_schema(site, spec):
    with pytest.raises(errors.Invalid, match=r"spec\.count") as caught:
        await site.person(A).create(kinds.GPU_CLAIMS, {**a_claim(), "spec": spec})
    assert "webhook" not in str(caught.value)


async def test_a_name_that_is_taken_is_told_as_taken(site):
    await site.order(A, "taken", "h100", 8)
    await site.bound(A, "taken")
    with pytest.raises(errors.AlreadyExists):
        await site.person(A).create(kinds.GPU_CLAIMS, a_claim("taken", count=8))
    await given_back(site, "taken")


async def test_of_two_who_race_for_one_unit_one_is_bound_and_the_other_knows_why(site):
    await site.order(A, "nine", "raced", 9)
    await site.bound(A, "nine")
    won, waits, no = await raced(site, ["one", "two"])
    assert (len(won), len(waits) + len(no)) == (1, 1)
    await given_back(site, "nine", *won, *waits)


async def test_of_fifty_who_race_for_ten_units_ten_are_bound(site):
    orders = [f"racer-{number}" for number in range(50)]
    won, waits, no = await raced(site, orders)
    assert (len(won), len(waits) + len(no)) == (10, 40)
    assert sum((await site.booked()).values()) == 10
    await given_back(site, *won, *waits)


async def raced(site, orders):
    """Order one unit each at once; who is Bound, who waits and says why, who was refused."""

    async def order(name):
        try:
            await site.order(A, name, "raced", 1)
        except errors.Forbidden as error:
            return str(error)
        return ""

    said = await asyncio.gather(*map(order, orders))
    assert all("0 free to order: wait until" in words for words in said if words)
    taken = [not words for words in said]
    stored = [name for name, is_taken in zip(orders, taken, strict=True) if is_taken]

    async def settled():
        status = {name: (await site.claim(A, name)).get("status") or {} for name in stored}
        return status if all("conditions" in one for one in status.values()) else None

    found = await sites.until(settled, 28, "each of them told")
    won = [name for name, status in found.items() if status["phase"] == "Bound"]
    waits = [name for name in stored if name not in won]
    assert all(found[name]["reasons"] == ["NoFreeUnits"] for name in waits)
    return won, waits, [name for name in orders if name not in stored]


async def test_a_mark_of_a_template_claim_lets_no_tenant_past(site):
    """A policy refuses the mark besides; whichever speaks, no such order is taken."""
    marked = a_claim("sly", labels={keys.TEMPLATE_CLAIM_LABEL: "true"})
    assert "sly" in str(await refused(site, marked))
    assert "sly" in str(await refused_of(site.admin, marked))


async def refused_of(who, body):
    with pytest.raises(errors.Forbidden) as caught:
        await who.create(kinds.GPU_CLAIMS, body)
    return caught.value


async def test_the_controllers_template_claims_are_placed_by_the_binder(site):
    marked = a_claim("template", labels={keys.TEMPLATE_CLAIM_LABEL: "true"})
    made = await site.controller().create(kinds.GPU_CLAIMS, marked, dry_run=True)
    assert made["metadata"]["name"] == "template"


async def test_namespaces_of_the_system_are_none_of_its_business(site):
    for namespace in ("kube-system", "cozy-system", "cozy-other"):
        if namespace == "cozy-other":
            await site.admin.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})
        body = a_claim("foreign", tenant=namespace)
        await site.admin.create(kinds.GPU_CLAIMS, body, dry_run=True)
    assert "belongs to no tenant" in str(await refused_of(site.admin, a_claim(tenant="default")))


def a_review(count, class_name="h100"):
    return {
        "apiVersion": f"{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}",
        "kind": "OrderReview",
        "metadata": {"namespace": A},
        "spec": {"className": class_name, "count": count},
    }


async def test_kubectl_asks_without_ordering_and_is_told_what_the_webhook_would_say(site):
    status = json.loads(await kubectl(site, a_review(9), "--output=json"))["status"]
    said = str(await refused(site, a_claim("big", count=9)))
    assert said.endswith(f"order big: {status['message']}")
    assert (status["allowed"], status["mostAccepted"], status["alternatives"]) == (
        False,
        8,
        ["l40s", "raced"],
    )
    assert json.loads(await kubectl(site, a_review(8), "--output=json"))["status"]["allowed"]
    assert await names(site) == set()


async def test_kubectl_says_what_is_wrong_with_a_question(site):
    with pytest.raises(CommandError, match=r"spec\.count: Invalid value: 0"):
        await kubectl(site, a_review(0))
    wrong = a_review(1)
    wrong["spec"]["number"] = 3
    with pytest.raises(CommandError, match=r'unknown field "spec\.number"'):
        await kubectl(site, wrong)
    with pytest.raises(CommandError, match="Forbidden"):
        await kubectl(site, {**a_review(1), "metadata": {"namespace": POOR}})


async def test_a_person_who_may_only_view_may_ask(site):
    path = f"{sites.CATALOG}/namespaces/{A}/orderreviews"
    body = json.dumps(a_review(1)).encode()
    headers = {"Content-Type": "application/json"}
    answer = await site.person(A, "view").raw("POST", path, body=body, headers=headers)
    assert answer.status == 201, answer.body


async def test_while_nobody_answers_orders_are_refused_and_nothing_else_is(site):
    await site.order(A, "kept", "h100", 1)
    await site.bound(A, "kept")
    await site.product.stop()
    with pytest.raises(errors.ServerFault) as caught:
        await site.order(A, "lost", "h100", 1)
    assert 'failed calling webhook "orders.gpu.cozystack.io"' in str(caught.value)
    container = {"name": "c", "image": "i"}
    pod = {"metadata": {"name": "p", "namespace": A}, "spec": {"containers": [container]}}
    await site.admin.create(kinds.PODS, pod, dry_run=True)
    for namespace in ("kube-system", "cozy-other"):
        await site.admin.create(
            kinds.GPU_CLAIMS, a_claim("foreign", tenant=namespace), dry_run=True
        )
    await site.person(A).delete(kinds.GPU_CLAIMS, "kept", A)
    await site.admin.patch(kinds.NODES, "gpu-1", {"metadata": {"annotations": {"a": "b"}}})
    await site.product.start(flags=sites.FAST)
    await site.gone(A, "kept")


async def test_installed_again_it_is_the_same(site):
    before = await configuration(site)
    await chart.install(site.cp, port=site.product.port)
    after = await configuration(site)
    assert after["webhooks"] == before["webhooks"]
    await refused(site, a_claim())


async def configuration(site):
    found = await site.cp.kubectl(
        "get", "validatingwebhookconfiguration", "cozystack-gpu", "--output=json"
    )
    return json.loads(found)


async def test_told_so_orders_wait_instead(site):
    await chart.install(site.cp, port=site.product.port, values=chart.ORDERS_WAIT)
    await sites.until(lambda: taken(site, "waiting"), 30, "the order is taken")
    await site.waits(A, "waiting", "NoFreeUnits")
    await given_back(site, "waiting")


async def test_with_the_feature_off_there_is_no_webhook_and_orders_are_taken(site):
    await chart.install(site.cp, port=site.product.port)

    async def judged():
        return not await taken(site, "unjudged", dry_run=True)

    await sites.until(judged, 30, "orders are judged again")
    await chart.install(site.cp, port=site.product.port, values={"enabled": False})
    with pytest.raises(CommandError, match="NotFound"):
        await configuration(site)
    await sites.until(lambda: taken(site, "unjudged"), 30, "the order is taken")
    await given_back(site, "unjudged", at_once=True)


async def taken(site, name, **how):
    """Order too much until it is taken: kube-apiserver learns of a changed webhook a moment later."""
    try:
        await site.person(A).create(kinds.GPU_CLAIMS, a_claim(name), **how)
    except errors.Forbidden:
        return False
    return True
