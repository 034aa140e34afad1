"""AsyncAPI documents, and that no credential is shown in them or anywhere else."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import traceback
from typing import Any

import pytest
from faststream import FastStream
from faststream.specification import AsyncAPI
from pydantic import BaseModel

from faststream_sql import QueueTable, SQLBroker, SQLRouter

CANARY = "s3cr3t-CANARY"
URLS = {
    "plain": f"postgresql://app_user:{CANARY}@db.internal:5432/shop",
    "at sign": f"postgresql://app_user:p@{CANARY}@db.internal:5432/shop",
    "slash": f"postgresql://app_user:p/{CANARY}@db.internal:5432/shop",
    "hash": f"postgresql://app_user:p#{CANARY}@db.internal:5432/shop",
    "question mark": f"postgresql://app_user:p?{CANARY}@db.internal:5432/shop",
    "query": f"postgresql://db.internal:5432/shop?user=app_user&password={CANARY}",
    "encoded": f"postgresql://app_user:%23{CANARY}%40@db.internal:5432/shop",
    "secret options": f"postgresql://app_user@db.internal:5432/shop?sslpassword={CANARY}&passfile=/home/{CANARY}",
    "MySQL": f"mysql://app_user:{CANARY}@db.internal:5432/shop?ssl_key=/home/{CANARY}",
    "MariaDB": f"mariadb+asyncmy://app_user:p@/{CANARY}@db.internal:5432/shop",
    "keyword DSN": f"host=db.internal port=5432 dbname=shop user=app_user password={CANARY}",
}


class Mail(BaseModel):
    to: str


def service(url: Any, **options: Any) -> FastStream:
    broker = SQLBroker(url, label="orders", **options)
    router = SQLRouter(prefix="eu.")

    @broker.subscriber("emails", max_attempts=5, dead_letter="emails.dead", max_workers=8)
    @broker.publisher("sent")
    async def send(mail: Mail) -> Mail:
        """Sends a mail."""
        return mail

    @router.subscriber("reports")
    async def report(body: dict[str, int]) -> None: ...

    broker.include_router(router)
    return FastStream(broker)


def documents(app: FastStream) -> dict[str, str]:
    return {version: AsyncAPI(*app.brokers, schema_version=version).to_specification().to_json() for version in ("2.6.0", "3.0.0")}


@pytest.mark.parametrize("url", URLS.values(), ids=list(URLS))
@pytest.mark.parametrize("given", [None, "same"], ids=["", "specification_url"])
def test_documents_show_where_the_database_is_and_nothing_secret(url: str, given: str | None) -> None:
    app = service(url) if given is None or "://" not in url else service(url, specification_url=url)
    for text in documents(app).values():
        for secret in (CANARY, "app_user"):
            assert secret not in text
        assert "db.internal:5432" in text
        assert "shop" in text
        assert "orders" in text


def test_the_document_says_table_group_form_and_limits() -> None:
    document = json.loads(documents(service("postgresql://db/shop"))["3.0.0"])
    (server,) = document["servers"].values()
    assert (server["host"], server["protocol"]) == ("db", "postgresql")
    assert "orders" in server["description"]
    assert {"name": "orders"} in server["tags"]
    told = " ".join(channel["description"] for channel in document["channels"].values() if "description" in channel)
    for part in ("'faststream_queue'", "'emails'", "a lease", "fails 5 times", "'emails.dead'", "'eu.reports'", "Sends a mail."):
        assert part in told, part
    assert "Mail" in json.dumps(document["components"])


def test_a_file_is_shown_without_its_folder() -> None:
    for text in documents(service("sqlite:////home/app_user/private/mail.db")).values():
        assert "private" not in text
        assert "mail.db" in text


def test_documents_need_no_connection_and_no_driver() -> None:
    code = """
import sys
for name in ("asyncpg", "aiosqlite", "asyncmy", "sqlalchemy"):
    sys.modules[name] = None
from faststream.specification import AsyncAPI
from tests.broker.test_specification import documents, service
print(len(documents(service("postgresql://u:p@db/shop"))), len(documents(service("sqlite:///x.db"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["2", "2"], done.stderr


@pytest.mark.parametrize("url", [text for text in URLS.values() if "passfile" not in text], ids=[n for n in URLS if n != "secret options"])
async def test_nothing_secret_in_reprs_logs_and_errors(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    broker = SQLBroker(url.replace("db.internal", "127.0.0.1").replace("5432", "1"), acquire_timeout=2)

    @broker.subscriber("emails")
    async def send(mail: Mail) -> None: ...

    with pytest.raises(Exception, match="cannot connect") as caught:
        await broker.start()
    error: BaseException | None = caught.value
    shown = ["".join(traceback.format_exception(caught.value)), repr(broker), str(broker), repr(vars(broker)), caplog.text]
    shown += [repr(subscriber) for subscriber in broker.subscribers] + [repr(broker.config), repr(broker.config.broker_config)]
    while error is not None:
        shown.append(repr(error))
        error = error.__cause__ or error.__context__
    for text in shown:
        for secret in (CANARY, "app_user"):
            assert secret not in text
    assert not await broker.ping()


@pytest.mark.postgres
async def test_a_wrong_database_or_role_is_said_without_credentials(postgres_url: str) -> None:
    from urllib.parse import urlsplit

    parts = urlsplit(postgres_url)
    where = f"{parts.hostname}:{parts.port}"
    for url in (f"postgresql://no_such_role:{CANARY}@{where}/postgres", f"postgresql://{parts.username}:{CANARY}@{where}/no_such_database"):
        broker = SQLBroker(url, logger=None)
        with pytest.raises(Exception, match="cannot connect") as caught:
            await broker.connect()
        text = "".join(traceback.format_exception(caught.value))
        assert CANARY not in text
        assert "no_such_role" not in text
        await broker.stop()


def test_an_error_of_the_url_itself_hides_it() -> None:
    with pytest.raises(Exception, match="driver") as caught:
        SQLBroker(f"postgresql+psycopg2://app_user:{CANARY}@db/shop")
    assert CANARY not in "".join(traceback.format_exception(caught.value))


async def test_a_ping_keeps_to_its_timeout(unused_tcp_port: int) -> None:
    server = await asyncio.start_server(lambda reader, writer: asyncio.sleep(3600), "127.0.0.1", unused_tcp_port)
    broker = SQLBroker(f"postgresql://u@127.0.0.1:{unused_tcp_port}/d", logger=None)
    assert not await broker.ping(0.2)
    server.close()
    assert QueueTable.default().name == "faststream_queue"
