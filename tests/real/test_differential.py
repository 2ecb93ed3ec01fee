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

from tests.real import site as sites
from tests.real import twin_answers, twin_rows
from tests.real import twin_site as twins
from tests.real.twin_allowed import ALLOWED
from tests.real.twin_answers import Answer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

IN_FLIGHT = 8
SILENT = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
"""Headers that are sent only where a row says so."""


class Asker:
    """Asks both through kube-apiserver, as the administrator."""

    def __init__(self, site, session):
        pair = site.cp.pki.pair("admin")
        self.tls = ssl.create_default_context(cafile=str(site.cp.pki.serving_ca.crt))
        self.tls.load_cert_chain(pair.crt, pair.key)
        self.server = site.cp.server
        self.session = session
        self.places = {}

    async def ask(self, group, row):
        """Send a row to one of the two."""
        home = f"/apis/{group}/{twins.VERSION}"
        tenant = f"{home}/namespaces/{twins.TENANT}"
        words = {"{home}": home, "{offers}": f"{tenant}/{twins.READ}"}
        words |= {"{asks}": f"{tenant}/{twins.ASKED}", "{group}": group}
        path = filled(row.path, {**words, **self.places.get(group, {})})
        body = None
        if row.body is not None:
            body = io.BytesIO(row.body.replace("{group}", group).encode())
        url = yarl.URL(self.server + path, encoded=True)
        sent = {"headers": row.headers, "data": body, "ssl": self.tls, "allow_redirects": False}
        try:
            async with self.session.request(row.method, url, **sent) as answer:
                headers = tuple((key.lower(), value) for key, value in answer.headers.items())
                return Answer(answer.status, headers, await answer.read())
        except aiohttp.ClientError:
            return Answer(0, (), b"")

    async def know(self, group):
        """Learn the newest version and the first page's token of one side."""
        answer = await self.ask(group, twin_rows.Row("first", "{offers}?limit=1"))
        meta = json.loads(answer.body)["metadata"]
        self.places[group] = {"{version}": meta["resourceVersion"], "{page}": meta["continue"]}


def filled(text, words):
    for name, value in words.items():
        text = text.replace(name, value)
    return text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def compared(binaries_built, tmp_path_factory):
    """Ask everything of both at once; what differs, by the names of row and aspect."""
    async with sites.opened(tmp_path_factory.mktemp("twins")) as site:
        await twins.fill(site)
        async with aiohttp.ClientSession(skip_auto_headers=SILENT) as session:
            asker = Asker(site, session)
            for group in (twins.OURS, twins.GROUP):
                await asker.know(group)
            few = asyncio.Semaphore(IN_FLIGHT)

            async def both(row):
                async with few:
                    ours, theirs = await asyncio.gather(
                        asker.ask(twins.OURS, row), asker.ask(twins.GROUP, row)
                    )
                return twin_answers.differing(
                    twin_answers.aspects(ours, twins.OURS),
                    twin_answers.aspects(theirs, twins.GROUP),
                )

            found = await asyncio.gather(*(both(row) for row in twin_rows.ROWS))
        yield {row.name: one for row, one in zip(twin_rows.ROWS, found, strict=True)}


def is_allowed(name, aspect):
    return any(fnmatch.fnmatchcase(f"{name} | {aspect}", allowed) for allowed in ALLOWED)


async def test_rows_have_names_of_their_own():
    names = [row.name for row in twin_rows.ROWS]
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
