"""Requests and watches of the bench against a server of the test's own: counted, timed, refused."""

import asyncio
import contextlib

import pytest
from aiohttp import web

from bench import fan, load


@contextlib.asynccontextmanager
async def serving(**handlers):
    app = web.Application()
    for name, handler in handlers.items():
        app.router.add_get(f"/{name}", handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield load.Aim(url=f"http://127.0.0.1:{runner.addresses[0][1]}", headers={"X": "y"})
    finally:
        await runner.cleanup()


async def test_each_request_is_answered_once_on_connections_that_stay_open():
    seen, peers = [], set()

    async def one(request):
        seen.append(request.headers["X"])
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(body=b"x" * 70_000)

    async with serving(one=one) as aim, load.connected(aim, 4) as pool:
        took = await pool.reads("/one", 30)
    assert (len(took.seconds), took.size, len(seen), len(peers)) == (30, 70_000, 30, 4)
    assert took.rate == pytest.approx(30 / took.whole)


async def test_a_chunked_answer_is_read_to_its_end():
    async def parts(request):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(3):
            await response.write(b"abc")
        return response

    async with serving(parts=parts) as aim, load.connected(aim, 1) as pool:
        assert (await pool.reads("/parts", 2)).size == 9


async def test_an_answer_that_is_no_200_ends_the_run():
    async def refused(request):
        return web.Response(status=429, body=b"too many")

    async with serving(refused=refused) as aim, load.connected(aim, 1) as pool:
        with pytest.raises(ExceptionGroup) as caught:
            await pool.reads("/refused", 1)
    assert "too many" in str(caught.value.exceptions[0])


async def test_watchers_say_when_each_was_told_of_a_change_and_leave_together():
    change, left = asyncio.Event(), []

    async def watch(request):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'{"k8s.io/initial-events-end":"true"}\n')
        try:
            await change.wait()
            await response.write(b'{"type":"MODIFIED"}\n')
            await asyncio.sleep(5)
        finally:
            left.append(True)
        return response

    async with serving(watch=watch) as aim, fan.watching(aim, ["/watch"] * 5) as watchers:
        with pytest.raises(TimeoutError):
            await fan.told(watchers, 0.05)
        for one in watchers:
            one.again()
        began = asyncio.get_running_loop().time()
        change.set()
        at = await fan.told(watchers, 2)
        assert len(at) == 5
        assert min(at) >= began
