"""How channels, messages and schemas are called, and what they are said to be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from faststream.specification import AsyncAPI
from pydantic import BaseModel

from faststream_sql import QueueTable, SQLBroker, SQLPublisher, SQLRoute, SQLRouter
from tests.asyncapi.test_official_schemas import VERSIONS


class User(BaseModel):
    id: int
    name: str = ""


def document(*brokers: SQLBroker, version: str = "3.0.0") -> Any:
    return json.loads(AsyncAPI(*brokers, schema_version=version).to_specification().to_json())


def described(found: Any) -> dict[str, str | None]:
    return {name: channel.get("description") for name, channel in found["channels"].items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_made_of_nothing_says_what_its_handlers_say(version: str) -> None:
    broker = SQLBroker()

    @broker.subscriber("test")
    async def plain(body: int) -> None: ...

    @broker.subscriber("test", title="told", description="test description")
    async def told(body: int) -> None: ...

    @broker.subscriber("test", title="docstring")
    async def docstring(body: int) -> None:
        """Test description."""

    kept = (broker.publisher("out"), broker.publisher("out", title="told out", description="test description"))
    assert kept
    assert described(document(broker, version=version)) == {
        "test:Plain": None, "told": "test description", "docstring": "Test description.",
        "out:Publisher": None, "told out": "test description",
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("given", ["url", "table", "option", "table of the subscriber"])
def test_whatever_was_given_is_said(version: str, given: str) -> None:
    table = QueueTable("jobs", id="id", group="name", payload="payload", locked_until="until")
    broker = {"url": SQLBroker("sqlite:///x.db"), "table": SQLBroker(table=table)}.get(given, SQLBroker())
    options: dict[str, Any] = {"option": {"max_workers": 7}, "table of the subscriber": {"table": table}}.get(given, {})

    @broker.subscriber("test", **options)
    async def handle(body: int) -> None:
        """Its own words."""

    said = described(document(broker, version=version))["test:Handle"]
    assert said is not None
    name = "jobs" if "table" in given else "faststream_queue"
    for part in ("Its own words.", f"table '{name}'", "'test'", f"At most {options.get('max_workers', 1)} run"):
        assert part in said


@pytest.mark.parametrize("version", VERSIONS)
def test_names(version: str) -> None:
    broker = SQLBroker()
    filtered = broker.subscriber("test3")

    @broker.subscriber("test")
    @broker.subscriber("test2", title="custom")
    async def handle_user(body: str) -> None: ...

    @filtered
    async def of_model(body: User) -> None: ...

    @filtered
    async def of_number(body: int) -> None: ...

    kept = [broker.subscriber("test4"), broker.publisher("test5", schema=User)]

    @broker.publisher("test6", title="custom out")
    async def answer() -> int:
        return 1

    assert kept
    found = document(broker, version=version)
    word = "" if version == "2.6.0" else "Subscribe"
    names = {"test:HandleUser", "custom", "test3:[OfModel,OfNumber]", "test4:Subscriber"}
    published = {"test5:Publisher", "custom out"}
    assert set(found["channels"]) == names | published
    assert set(found["components"]["messages"]) == {f"{name}:{word}Message" for name in names} | {f"{name}:Message" for name in published}
    assert found["components"]["schemas"]["User"]["required"] == ["id"]
    assert found["components"]["schemas"]["Subscriber:Message:Payload"] == {"title": "Subscriber:Message:Payload"}


@pytest.mark.parametrize("version", VERSIONS)
def test_servers_of_several_brokers(version: str, recwarn: pytest.WarningsRecorder) -> None:
    def made(name: str, **options: Any) -> SQLBroker:
        broker = SQLBroker(**options)

        @broker.subscriber("test", title=name)
        async def handle() -> None: ...

        return broker

    shared = document(made("a"), made("b"), version=version)
    apart = document(made("a", description="1"), made("b", description="2"), version=version)
    assert list(shared["servers"]) == ["development"]
    assert {name: server["description"] for name, server in apart["servers"].items()} == {"Server1": "1", "Server2": "2"}
    wanted = {"a": "Server1", "b": "Server2"}
    for name, channel in apart["channels"].items():
        assert channel["servers"] == [wanted[name] if version == "2.6.0" else {"$ref": f"#/servers/{wanted[name]}"}]
    assert not recwarn.list


@pytest.mark.parametrize("version", VERSIONS)
def test_routers_and_what_is_left_out(version: str) -> None:
    async def handle(body: Any) -> None: ...

    def declared(**options: Any) -> SQLRouter:
        return SQLRouter(handlers=(SQLRoute(handle, "test", publishers=(SQLPublisher("test2", schema=int),)),), **options)

    shown, nested, hidden, by_method = SQLBroker(), SQLBroker(), SQLBroker(), SQLBroker()
    shown.include_router(declared())
    outer = SQLRouter(prefix="p.")
    outer.include_router(declared())
    nested.include_router(outer)
    hidden.include_router(declared(include_in_schema=False))
    by_method.include_router(declared(), include_in_schema=False)

    @hidden.publisher("x", include_in_schema=False)
    @hidden.subscriber("y", include_in_schema=False)
    async def handler(body: str) -> None: ...

    assert set(document(shown, version=version)["channels"]) == {"test:Handle", "test2:Publisher"}
    assert set(document(nested, version=version)["channels"]) == {"p.test:Handle", "p.test2:Publisher"}
    assert document(hidden, version=version)["channels"] == document(by_method, version=version)["channels"] == {}
