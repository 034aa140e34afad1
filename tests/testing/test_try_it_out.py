"""AsyncAPI's "try it out": the test client on a broker that runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from faststream.asgi import AsgiFastStream
from faststream.specification.asyncapi.v3_0_0 import generate  # noqa: F401 - the page is there

from faststream_sql import SQLBroker
from faststream_sql.testing import TestSQLBroker
from tests.testing.tables import ReportJob


@pytest.fixture
async def live(sqlite_url: str) -> Any:
    broker = SQLBroker(sqlite_url, tables={"reports": ReportJob, "*": SQLBroker()._routes.resolve("q")}, poll_interval=0.05)
    await broker.create_tables()
    yield broker
    await broker.stop()


async def test_a_dry_run_leaves_the_broker_at_work(live: SQLBroker) -> None:
    seen: list[tuple[str, bool]] = []
    came = asyncio.Event()

    @live.subscriber("q")
    async def handler(body: str) -> str:
        seen.append((body, asyncio.current_task() in dry))
        if body == "slow":
            await live.publish("from the dry run", "q")
            await asyncio.sleep(0.1)
        if body == "real":
            came.set()
        return body.upper()

    @live.subscriber("reports")
    async def render(number: int) -> int:
        return number + 1

    dry: list[Any] = []
    await live.start()
    config = live.config.broker_config
    before = (config.producer, config.clock, live.start, live.engine)

    async def dry_run(body: Any, queue: str) -> Any:
        async with TestSQLBroker(live):
            answer = await live.request(body, queue, timeout=30)
            return await answer.decode()

    runs = [asyncio.create_task(dry_run("slow", "q")), asyncio.create_task(dry_run("slow", "q"))]
    await asyncio.sleep(0.02)
    assert await live.ping()
    assert await live.publish("real", "q") == 1  # the first row in the file: the dry runs' are in memory
    await asyncio.wait_for(came.wait(), 5)
    assert await asyncio.gather(*runs) == ["SLOW", "SLOW"]
    assert await dry_run(1, "reports") == 2
    assert (config.producer, config.clock, live.start, live.engine) == before
    assert all(subscriber.running for subscriber in live.subscribers)
    assert await live.ping()
    assert sorted(body for body, _ in seen) == ["from the dry run", "from the dry run", "real", "slow", "slow"]


async def post(app: AsgiFastStream, body: bytes) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/docs/try",
        "headers": [(b"content-type", b"application/json")],
        "query_string": b"",
    }
    await app(scope, receive, send)  # type: ignore[arg-type]
    return sent[0]["status"], sent[1]["body"]


async def test_the_page_finds_the_test_client(live: SQLBroker) -> None:
    @live.subscriber("q")
    async def handler(body: dict[str, int]) -> int:
        return body["a"] + 1

    app = AsgiFastStream(live, asyncapi_path="/docs")
    await live.start()
    assert await post(app, b'{"channelName": "q:Handler", "message": {"message": {"a": 1}}}') == (200, b"2")
    assert (await post(app, b'{"channelName": "none", "message": {"message": 1}}'))[0] == 404
    assert (await post(app, b'{"channelName": "q", "message": {"message": "bad"}}'))[0] == 500
    assert await live.ping()
    assert handler.is_test is False
