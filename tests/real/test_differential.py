"""The same questions to a CRD of the same shape on kube-apiserver and to us, and what may differ in the answers."""

import asyncio
import fnmatch
import io
import json
import ssl

import aiohttp
import pytest
import pytest_asyncio
import yarl

from devcluster import chart, tenants
from tests.real import site as sites
from tests.real import twin_answers, twin_more, twin_rows
from tests.real import twin_site as twins
from tests.real.twin_allowed import ALLOWED
from tests.real.twin_answers import Answer
from tests.real.twin_more import ROWS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

IN_FLIGHT = 8
DIRECT = "direct: "
"""Before the name of a row that was put to us directly; theirs is asked as ever."""
SILENT = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
"""Headers that are sent only where a row says so."""


class Asker:
    """Asks both through kube-apiserver, and us directly."""

    def __init__(self, site, session):
        pki = site.cp.pki
        somebody = f"somebody@{twins.TENANT}"
        told = {"user": somebody, "groups": [tenants.group(twins.TENANT)], "now": sites.now()}
        pairs = {"admin": pki.pair("admin"), "tenant": pki.sign_client("tenant", **told), "": None}
        places = {False: site.cp.server, True: site.product.replicas["replica-1"].url}
        self.bases = places
        self.tls = {}
        for directly, ca in ((False, pki.serving_ca), (True, pki.ext_ca)):
            for user, pair in pairs.items():
                made = ssl.create_default_context(cafile=str(ca.crt))
                if pair:
                    made.load_cert_chain(pair.crt, pair.key)
                self.tls[directly, user] = made
        self.session = session
        self.places = {}

    async def ask(self, group, row, *, directly=False):
        """Send a row to one of the two."""
        home = f"/apis/{group}/{twins.VERSION}"
        tenant = f"{home}/namespaces/{twins.TENANT}"
        words = {"{home}": home, "{offers}": f"{tenant}/{twins.READ}"}
        words |= {"{asks}": f"{tenant}/{twins.ASKED}", "{group}": group}
        path = filled(row.path, {**words, **self.places.get(group, {})})
        body = None
        if row.body is not None:
            body = io.BytesIO(row.body.replace("{group}", group).encode())
        url = yarl.URL(self.bases[directly] + path, encoded=True)
        sent = {"headers": row.headers, "data": body, "ssl": self.tls[directly, row.user]}
        try:
            async with self.session.request(
                row.method, url, **sent, allow_redirects=False
            ) as answer:
                headers = tuple((key.lower(), value) for key, value in answer.headers.items())
                return Answer(answer.status, headers, await answer.read())
        except aiohttp.ClientError:
            return Answer(0, (), b"")

    async def know(self, group):
        """Learn the newest version and the first pages' tokens of one side."""
        metas = []
        for path in ("{offers}", twin_more.PLANS):
            answer = await self.ask(group, twin_rows.Row("first", f"{path}?limit=1"))
            metas.append(json.loads(answer.body)["metadata"])
        offers, plans = metas
        self.places[group] = {
            "{version}": offers["resourceVersion"],
            "{page}": offers["continue"],
            "{plans page}": plans["continue"],
        }

    async def compared(self, row):
        """Ask both a row; what differs through kube-apiserver, and what differs of us asked directly."""
        ours, theirs, direct = await asyncio.gather(
            self.ask(twins.OURS, row),
            self.ask(twins.GROUP, row),
            self.ask(twins.OURS, row, directly=True),
        )
        expected = twin_answers.aspects(theirs, twins.GROUP)
        return [
            twin_answers.differing(twin_answers.aspects(one, twins.OURS), expected)
            for one in (ours, direct)
        ]


def filled(text, words):
    for name, value in words.items():
        text = text.replace(name, value)
    return text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def compared(binaries_built, tmp_path_factory):
    """Ask everything of both at once; what differs, by the names of row and aspect."""
    directory = tmp_path_factory.mktemp("twins")
    async with sites.opened(directory, values=chart.ORDERS_WAIT) as site:
        await twins.fill(site)
        async with aiohttp.ClientSession(skip_auto_headers=SILENT) as session:
            asker = Asker(site, session)
            for group in (twins.OURS, twins.GROUP):
                await asker.know(group)
            few = asyncio.Semaphore(IN_FLIGHT)

            async def both(row):
                async with few:
                    return await asker.compared(row)

            found = await asyncio.gather(*(both(row) for row in ROWS))
        through, direct = zip(*found, strict=True)
        names = [row.name for row in ROWS]
        yield {
            **dict(zip(names, through, strict=True)),
            **dict(zip([DIRECT + name for name in names], direct, strict=True)),
        }


def is_allowed(name, aspect):
    found = (f"{name} | {aspect}", f"{name.removeprefix(DIRECT)} | {aspect}")
    return any(fnmatch.fnmatchcase(one, allowed) for allowed in ALLOWED for one in found)


async def test_rows_have_names_of_their_own():
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


async def test_the_answers_differ_only_where_a_reason_is_given(compared):
    wrong = {
        f"{name} | {aspect}": values
        for name, found in compared.items()
        for aspect, values in found.items()
        if not is_allowed(name, aspect)
    }
    told = "\n".join(f"{where}\n   ours   {a}\n   theirs {b}" for where, (a, b) in wrong.items())
    assert not wrong, told


async def test_no_difference_is_allowed_that_is_gone(compared):
    seen = [f"{name} | {aspect}" for name, found in compared.items() for aspect in found]
    gone = [allowed for allowed in ALLOWED if not fnmatch.filter(seen, allowed)]
    assert gone == []
