"""`AsgiFastStream` under Starlette's test client, whose application runs in a thread and on an event loop of its own."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest
from faststream.annotations import FastStream, Logger
from faststream.asgi import AsgiFastStream, AsgiResponse, AsyncAPIRoute, get, make_ping_asgi
from faststream.specification import AsyncAPI
from starlette.testclient import TestClient

from faststream_sql import SQLBroker
from faststream_sql.testing import TestSQLBroker


@pytest.mark.parametrize("healthy", [True, False])
async def test_health(healthy: bool) -> None:
    broker = SQLBroker()
    app = AsgiFastStream(broker, asgi_routes=[("/health", make_ping_asgi(broker, timeout=5.0))])
    async with TestSQLBroker(broker) as br:
        if not healthy:
            br.ping = AsyncMock(return_value=False)  # type: ignore[method-assign]
        with TestClient(app) as client:
            assert client.get("/health").status_code == (204 if healthy else 500)
            assert client.get("/elsewhere").status_code == 404


@pytest.mark.parametrize("later", [True, False])
async def test_documents(later: bool) -> None:
    broker = SQLBroker()
    app = AsgiFastStream(*([] if later else [broker]), specification=AsyncAPI(), asyncapi_path="/docs")
    if later:
        app.add_broker(broker)
    async with TestSQLBroker(broker):
        with TestClient(app) as client:
            answer = client.get("/docs")
            assert answer.status_code == 200
            assert "<html" in answer.text


async def test_handlers_of_the_application() -> None:
    @get
    async def handle(logger: Logger, app: FastStream) -> AsgiResponse:
        return AsgiResponse(f"{type(logger).__name__} {type(app).__name__}".encode())

    broker = SQLBroker()
    app = AsgiFastStream(broker, asgi_routes=[("/test", handle)])
    async with TestSQLBroker(broker):
        with TestClient(app) as client:
            assert client.get("/test").text == "Logger AsgiFastStream"


@pytest.mark.parametrize("answer", [None, {"result": 1}])
async def test_a_message_is_tried_out(queue: str, answer: Any) -> None:
    broker, got = SQLBroker(), list[Any]()

    @broker.subscriber(queue)
    async def handle(body: dict[str, Any]) -> Any:
        got.append(body)
        return answer

    app = AsgiFastStream(broker, asyncapi_path="/custom/docs")
    asked = {"channelName": queue, "message": {"message": {"data": "hello"}}, "options": {"sendToRealBroker": False}}
    async with TestSQLBroker(broker):
        with TestClient(app) as client:
            answered = client.post("/custom/docs/try", json=asked)
            assert answered.status_code == 200, answered.text
            assert answered.json() == (answer or "ok")
            assert got == [{"data": "hello"}]


async def test_what_cannot_be_tried_out(queue: str) -> None:
    broker = SQLBroker()
    app = AsgiFastStream(broker, asyncapi_path="/docs")
    closed = AsgiFastStream(broker, asyncapi_path=AsyncAPIRoute("/docs", try_it_out_path=None))
    async with TestSQLBroker(broker):
        with TestClient(app) as client:
            missing = client.post("/docs/try", json={"message": {}})
            assert (missing.status_code, missing.json()) == (400, {"details": "Missing channelName"})
            unknown = client.post("/docs/try", json={"channelName": queue, "message": {"text": "hello"}})
            assert (unknown.status_code, unknown.json()) == (404, {"details": f"{queue} destination not found."})
        with TestClient(closed) as client:
            assert client.post("/docs/try", json={"channelName": queue, "message": {}}).status_code == 404


async def test_a_live_broker_is_tried_out(queue: str, sqlite_url: str) -> None:
    """Nothing of the test's is left: the application starts the broker, and its loop is the only one."""
    broker, got = SQLBroker(sqlite_url), list[Any]()

    @broker.subscriber(queue)
    async def handle(body: str) -> str:
        got.append(body)
        return body.upper()

    app = AsgiFastStream(broker, asyncapi_path="/docs", asgi_routes=[("/health", make_ping_asgi(broker, timeout=50.0))])

    @app.on_startup
    async def schema() -> None:
        await broker.create_tables()

    with TestClient(app) as client:
        for _ in range(2):
            tried = client.post("/docs/try", json={"channelName": queue, "message": {"message": "hello"}})
            assert (tried.status_code, tried.json()) == (200, "HELLO")
            assert client.get("/health").status_code == 204
    assert got == ["hello", "hello"]
