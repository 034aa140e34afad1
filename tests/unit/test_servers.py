"""The suite's own servers and databases: they start, crash, come back on their port, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncmy
import asyncpg
import psutil
import pytest

from tests.databases import PostgresDatabase
from tests.servers import (
    PrivateMariaDB,
    PrivatePostgres,
    PrivateServer,
    ServerUnavailableError,
    mysql_server,
    postgres_server,
    skip_without,
)

ROOT = Path(__file__).parents[2]


def private(kind: type[PrivateServer]) -> PrivateServer:
    try:
        return kind()
    except ServerUnavailableError as error:
        skip_without(error)


@pytest.mark.postgres
async def test_postgres_keeps_its_port_and_its_rows_through_stop_and_kill() -> None:
    with PrivatePostgres(["-c", "max_connections=20"]) as server:
        url, port = server.url(), server.port
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE kept (id int)")
        await connection.execute("INSERT INTO kept VALUES (1)")
        assert await connection.fetchval("SHOW max_connections") == "20"
        server.kill()
        assert not server.running
        connection.terminate()
        with pytest.raises(ConnectionRefusedError):
            await asyncpg.connect(url)

        server.start()
        server.restart("immediate")
        server.restart("fast")
        connection = await asyncpg.connect(url)
        assert (await connection.fetchval("SELECT count(*) FROM kept"), server.port) == (1, port)
        await connection.close()
        folder = server.folder
    assert not folder.exists()


@pytest.mark.mysql
async def test_mariadb_keeps_its_port_and_its_rows_through_stop_and_kill() -> None:
    with private(PrivateMariaDB) as server:
        port = server.port
        connection = await asyncmy.connect(host="127.0.0.1", port=port, user="root", db="test", autocommit=True)
        async with connection.cursor() as cursor:
            await cursor.execute("CREATE TABLE kept (id int)")
            await cursor.execute("INSERT INTO kept VALUES (1)")
        server.kill()
        connection.close()

        server.start()
        server.restart("fast")
        connection = await asyncmy.connect(host="127.0.0.1", port=port, user="root", db="test")
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT count(*) FROM kept")
            assert await cursor.fetchone() == (1,)
        await connection.ensure_closed()
        folder = server.folder
    assert not folder.exists()


HOLD = """
import signal, sys
from tests.servers import {kind}
server = {kind}().start()
print(server.pid, server.folder, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(PrivatePostgres, marks=pytest.mark.postgres, id="postgres"),
        pytest.param(PrivateMariaDB, marks=pytest.mark.mysql, id="mariadb"),
    ],
)
def test_nothing_outlives_the_process_that_started_a_server(kind: type[PrivateServer], end: signal.Signals) -> None:
    private(kind)
    with subprocess.Popen([sys.executable, "-c", HOLD.format(kind=kind.__name__)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pid, folder = holder.stdout.readline().split()
        server = psutil.Process(int(pid))
        family = [server, *server.children(recursive=True)]
        os.kill(holder.pid, end)
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not alive
    deadline = time.monotonic() + 10
    while Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_reaches_no_server() -> None:
    with PrivatePostgres() as server:
        assert os.getpgid(server.pid) != os.getpgrp()


async def test_each_test_gets_an_empty_postgres_database(postgres_url: str) -> None:
    await _fill(postgres_url)


async def test_and_the_next_one_too(postgres_url: str) -> None:
    await _fill(postgres_url)


async def _fill(url: str) -> None:
    connection = await asyncpg.connect(url, server_settings={"application_name": "faststream_sql"})
    await connection.execute('CREATE SCHEMA "Other one"; CREATE TABLE "Other one".a (id int); CREATE TABLE b (id int)')
    await connection.close()


async def test_each_test_gets_an_empty_mysql_database(mysql_url: str) -> None:
    await _fill_mysql(mysql_url)


async def test_and_the_next_mysql_one_too(mysql_url: str) -> None:
    await _fill_mysql(mysql_url)


async def _fill_mysql(url: str) -> None:
    host, _, rest = url.removeprefix("mysql://").rpartition("@")[2].partition(":")
    port, _, database = rest.partition("/")
    user, _, password = url.removeprefix("mysql://").rpartition("@")[0].partition(":")
    connection = await asyncmy.connect(host=host, port=int(port), user=user, password=password, db=database)
    async with connection.cursor() as cursor:
        await cursor.execute("CREATE TABLE a (id int)")
    await connection.ensure_closed()


def test_a_session_left_open_is_found(postgres_database: PostgresDatabase) -> None:
    loop = asyncio.new_event_loop()
    settings = {"application_name": "faststream_sql"}
    connection = loop.run_until_complete(asyncpg.connect(postgres_database.url, server_settings=settings))
    loop.run_until_complete(connection.execute("SELECT pg_advisory_lock(1)"))
    session, lock = postgres_database.leaks()
    assert "idle" in session
    assert "advisory" in lock
    loop.run_until_complete(connection.close())
    loop.close()
    assert postgres_database.leaks_after_grace() == []


@pytest.mark.parametrize(
    "server", [pytest.param(postgres_server, marks=pytest.mark.postgres), pytest.param(mysql_server, marks=pytest.mark.mysql)]
)
def test_the_shared_server_is_started_once(server: object) -> None:
    assert callable(server)
    try:
        assert server() == server()
    except ServerUnavailableError as error:
        skip_without(error)
