"""Documents are valid by the official AsyncAPI schemas, whatever stands in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faststream import FastStream
from faststream.security import SASLPlaintext
from faststream.specification import AsyncAPI
from jsonschema import Draft7Validator, FormatChecker
from pydantic import BaseModel

from faststream_sql import QueueTable, SQLBroker, SQLRouter

VERSIONS = ("2.6.0", "3.0.0")
ROOT = Path(__file__).parents[2]
JOBS = QueueTable("jobs", id="id", group="name", payload="payload", locked_until="until")


def problems(document: dict[str, Any]) -> list[str]:
    """What the official schema of the document's version says against it."""
    schema = json.loads((Path(__file__).parent / "schemas" / f"{document['asyncapi']}.json").read_text())
    found = Draft7Validator(schema, format_checker=FormatChecker()).iter_errors(document)
    return [f"{error.json_path}: {error.message[:300]}" for error in found]


class Address(BaseModel):
    city: str


class Mail(BaseModel):
    to: str
    address: Address | None = None


def plain(**options: Any) -> list[SQLBroker]:
    broker = SQLBroker(**options)

    @broker.subscriber("emails")
    @broker.publisher("sent")
    async def send(mail: Mail) -> Mail:
        return mail

    return [broker]


def everything() -> list[SQLBroker]:
    first = SQLBroker(
        "postgresql://u:secret@db:5433/shop", label="orders", tables={"jobs.*": JOBS, "*": QueueTable.default()}, tags=[{"name": "x"}]
    )
    second = SQLBroker("sqlite:////srv/mail.db", description="the mailer", protocol_version="3", security=None)
    router = SQLRouter(prefix="eu/")
    subscriber = router.subscriber("{reports}", max_attempts=3, dead_letter="dead")

    @subscriber(filter=lambda message: message.content_type == "application/json")
    async def report(mail: Mail, urgent: bool = False) -> None:
        """Renders."""

    @subscriber
    async def anything(body: Any) -> None: ...

    @first.subscriber("jobs.a", title="A job / with a title", description="Its own words.", max_workers=8)
    async def job(number: int | None) -> None: ...

    @second.subscriber("name with spaces: and colons")
    @second.publisher("out", schema=Mail, title="Out")
    async def handle() -> dict[str, list[int]]:
        return {}

    first.include_router(router)
    return [first, second]


def secured() -> list[SQLBroker]:
    return plain(url="postgresql://db.internal/shop", security=SASLPlaintext("user", "secret", use_ssl=True))


SERVICES = {
    "of nothing": plain,
    "a file": lambda: plain(url="sqlite:////home/someone/mail.db"),
    "memory": lambda: plain(url="sqlite://"),
    "postgres": lambda: plain(url="postgresql://u:p@db:5433/shop?sslmode=verify-full"),
    "postgres of the environment": lambda: plain(url="postgresql://"),
    "a socket": lambda: plain(url="postgresql:///shop?host=/var/run/postgresql"),
    "several hosts": lambda: plain(url="postgresql://u:p@h1:5432,h2:5433/shop"),
    "an address of version 6": lambda: plain(url="postgresql://u:p@[::1]:5433/shop"),
    "keywords": lambda: plain(url="host=db.internal port=5432 dbname=shop user=u password=p"),
    "mysql": lambda: plain(url="mysql://u:p@db/shop"),
    "mariadb": lambda: plain(url="mariadb://u:p@db/shop"),
    "a URL of its own": lambda: plain(url="sqlite://", specification_url="postgresql://u:p@public:1/shop"),
    "security": secured,
    "everything": everything,
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("service", SERVICES)
def test_documents_are_valid(service: str, version: str) -> None:
    document = json.loads(AsyncAPI(*SERVICES[service](), schema_version=version).to_specification().to_json())
    assert document["asyncapi"] == version
    assert document["channels"]
    assert problems(document) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_check_finds_what_is_wrong(version: str) -> None:
    document = json.loads(AsyncAPI(*plain(), schema_version=version).to_specification().to_json())
    del document["servers"]["development"]["protocol"]
    assert problems(document)


NO_IO = """
import socket, sqlite3, sys
for name in ("asyncpg", "aiosqlite", "asyncmy", "sqlalchemy"):
    sys.modules[name] = None
def refuse(*args, **kwargs):
    raise AssertionError("I/O")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = sqlite3.connect = refuse
from faststream._internal.cli.main import cli
cli()
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_faststream_docs_gen(version: str, tmp_path: Path) -> None:
    """By the command itself, without a driver, where nothing can connect."""
    out = tmp_path / "asyncapi.json"
    app = f"tests.asyncapi.test_official_schemas:{APPS[version]}"
    command = [sys.executable, "-c", NO_IO, "docs", "gen", app, "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(out.read_text())
    assert document["asyncapi"] == version
    assert problems(document) == []
    assert "secret" not in out.read_text()


older = FastStream(*everything(), specification=AsyncAPI(schema_version="2.6.0"))
newer = FastStream(*everything(), specification=AsyncAPI(schema_version="3.0.0"))
APPS = {"2.6.0": "older", "3.0.0": "newer"}
