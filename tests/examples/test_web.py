"""The web example, asked over HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import pytest

from faststream_sql import SQLBrokerError
from faststream_sql.testing import TestSQLBroker


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("ORDERS_URL", f"sqlite:///{tmp_path / 'orders.db'}")
    sys.modules.pop("examples.web", None)
    return import_module("examples.web")


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """The application as a server runs it: its lifespan around its requests."""
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    await told.put({"type": "lifespan.startup"})
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    life = asyncio.ensure_future(app(scope, told.get, said.put))
    if (await said.get())["type"] == "lifespan.startup.failed":
        await life
    try:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test") as client:
            yield client
    finally:
        await told.put({"type": "lifespan.shutdown"})
        await life
    assert (await said.get())["type"] == "lifespan.shutdown.complete"


async def test_orders_go_in_by_http_and_are_worked_off(web: Any) -> None:
    async with served(web.app) as client:
        assert (await client.get("/health")).status_code == 204
        for order in ({"item": "book"}, {"item": "glass", "pieces": 2}):
            answer = await client.post("/orders", json=order)
            assert answer.status_code == 202
        assert answer.json() == {"row": 2}
        while len((await client.get("/orders")).json()) < 2:  # noqa: ASYNC110 - the service tells by HTTP alone
            await asyncio.sleep(0.02)
        assert (await client.get("/orders")).json() == ["1 x book", "2 x glass"]
        document = (await client.get("/asyncapi.json")).json()
        assert list(document["channels"]) == ["orders:Pack"]
        assert (await client.get("/asyncapi")).status_code == 200
        tried = await client.post("/asyncapi/try", json={"channelName": "orders:Pack", "message": {"message": {"item": "cup"}}})
        assert tried.status_code == 200
        assert "1 x cup" in (await client.get("/orders")).json()
        assert (await client.get("/health")).status_code == 204  # the live queue is worked on as before
    assert not await web.broker.ping()


async def test_its_handlers_under_the_test_client(web: Any) -> None:
    async with TestSQLBroker(web.broker) as broker:
        await broker.publish({"item": "book"}, "orders")
        assert web.house.packed == ["1 x book"]


async def test_a_queue_that_cannot_be_worked_on_stops_the_service(web: Any, tmp_path: Path) -> None:
    (tmp_path / "orders.db").write_text("no database at all, and long enough to be seen as one: " * 100)
    with pytest.raises(SQLBrokerError):
        async with served(web.app):
            pass
