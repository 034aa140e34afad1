"""Connections that cannot be made, and logins: no error, traceback or log line holds a credential."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import asyncpg
import pytest
from asyncmy import auth

from faststream_sql.drivers.base import Use
from faststream_sql.errors import StatementError
from tests.drivers.conftest import Unfriendly
from tests.drivers.pools import CANARY, SCHEMES, assert_no_credential, failure_of, pool_of, unused_port
from tests.servers import PrivatePostgres, ServerUnavailableError, skip_without


@pytest.mark.parametrize("scheme", SCHEMES.values())
async def test_a_refused_port(scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    port = unused_port()
    error = await failure_of(f"{scheme}://bob_canary:{CANARY}@127.0.0.1:{port}/app")
    assert_no_credential(error, "bob_canary", CANARY)
    assert f"127.0.0.1:{port}" in str(error)
    assert CANARY not in caplog.text


@pytest.mark.parametrize("scheme", SCHEMES.values())
async def test_a_name_that_leads_nowhere(scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = await failure_of(f"{scheme}://bob_canary:{CANARY}@no-such-host.invalid/app")
    assert_no_credential(error, "bob_canary", CANARY)
    assert "no-such-host.invalid" in str(error)
    assert CANARY not in caplog.text


@asynccontextmanager
async def greeting(words: bytes) -> AsyncIterator[int]:
    """The port of a server that says the same to everyone, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.mark.parametrize("scheme", SCHEMES.values())
@pytest.mark.parametrize(
    "words",
    [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x05\0\0\0\x0a5.5\0", b"\x01\0\0\0\x0a", b"N", b"\xff" * 100],
    ids=repr,
)
async def test_what_answers_is_no_database(scheme: str, words: bytes) -> None:
    async with greeting(words) as port:
        error = await failure_of(f"{scheme}://bob_canary:{CANARY}@127.0.0.1:{port}/app?connect_timeout=1")
    assert_no_credential(error, "bob_canary", CANARY)
    assert f"127.0.0.1:{port}" in str(error)


@pytest.mark.mysql
@pytest.mark.parametrize("first", ["no-such-host.invalid", "127.0.0.1:1"])
async def test_the_next_host_serves_where_the_first_does_not(mysql_url: str, first: str) -> None:
    at = urlsplit(mysql_url)
    credentials, _, hosts = at.netloc.rpartition("@")
    pool = pool_of(at._replace(netloc=f"{credentials}@{first},{hosts}").geturl(), command_timeout=10.0)
    await pool.open()
    await pool.close(1.0)


# --- passwords of Postgres ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def password_server() -> Iterator[PrivatePostgres]:
    """A server that asks for passwords: a role per method, each with the password `right`."""
    try:
        with PrivatePostgres() as server:
            path, rules = asyncio.run(_ask_for_passwords(server))
            Path(path).write_text(rules)
            server.restart()
            yield server
    except ServerUnavailableError as error:
        skip_without(error)


async def _ask_for_passwords(server: PrivatePostgres) -> tuple[str, str]:
    connection = await asyncpg.connect(server.url())
    try:
        for method in ("md5", "scram-sha-256"):
            await connection.execute(f"SET password_encryption = '{method}'; CREATE ROLE \"bob-{method}\" LOGIN PASSWORD 'right'")
        path = await connection.fetchval("SHOW hba_file")
        administrator = await connection.fetchval("SELECT current_user")
        rules = [f'host all "bob-{method}" 127.0.0.1/32 {method}' for method in ("md5", "scram-sha-256")]
        return path, "\n".join([*rules, f'host all "{administrator}" 127.0.0.1/32 trust', ""])
    finally:
        await connection.close()


@pytest.mark.postgres
@pytest.mark.parametrize("method", ["md5", "scram-sha-256"])
async def test_passwords(password_server: PrivatePostgres, method: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    at = urlsplit(password_server.url("postgres"))
    where = f"{at.hostname}:{at.port}"
    wrong = await failure_of(f"postgresql://bob-{method}:{CANARY}@{where}/postgres")
    assert wrong.code == "28P01"
    nobody = await failure_of(f"postgresql://nobody-canary:{CANARY}@{where}/postgres")
    assert nobody.code == "28000"
    nowhere = await failure_of(f"postgresql://bob-{method}:right@{where}/no_such_database")
    assert nowhere.code == "3D000"
    for error in (wrong, nobody, nowhere):
        assert_no_credential(error, f"bob-{method}", "nobody-canary", CANARY, ":right@")
        assert where in str(error)
    assert "no_such_database" in str(nowhere)
    assert CANARY not in caplog.text
    pool = pool_of(f"postgresql://bob-{method}:right@{where}/postgres")
    await pool.open()
    await pool.close(1.0)


# --- passwords of MariaDB ----------------------------------------------------------------------------------------------------------------

PASSWORDS = ["right", "пароль-😀", "p%41:/?#[]@'\"\\ x", "x" * 200]
PLUGINS = ["mysql_native_password", "ed25519"]


@pytest.mark.mysql
@pytest.mark.parametrize("plugin", PLUGINS)
async def test_passwords_of_mariadb(unfriendly: Unfriendly, plugin: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for password in PASSWORDS:
        as_hex = f"CONVERT(x'{password.encode().hex()}' USING utf8mb4)"
        await unfriendly.run(
            f"SET @statement = CONCAT('CREATE OR REPLACE USER `bob-{plugin}`@`%` IDENTIFIED VIA {plugin} USING PASSWORD(', "
            f"CHAR(39), REPLACE({as_hex}, CHAR(39), CONCAT(CHAR(39), CHAR(39))), CHAR(39), ')')",
            "SET NAMES utf8mb4",
            "EXECUTE IMMEDIATE @statement",
            f"GRANT ALL ON test.* TO `bob-{plugin}`@`%`",
        )
        pool = pool_of(unfriendly.url(f"bob-{plugin}:{quote(password, safe='')}"), command_timeout=10.0)
        await pool.open()
        await pool.close(1.0)
    where = f"127.0.0.1:{unfriendly.server.port}"
    wrong = await failure_of(unfriendly.url(f"bob-{plugin}:{CANARY}"))
    assert wrong.code == "1045"
    nobody = await failure_of(unfriendly.url(f"nobody-canary:{CANARY}"))
    assert nobody.code == "1045"
    nowhere = await failure_of(unfriendly.url(f"bob-{plugin}:{'x' * 200}").replace("/test", "/no_such_database"))
    assert nowhere.code == "1044"
    for error in (wrong, nobody, nowhere):
        assert_no_credential(error, f"bob-{plugin}", "nobody-canary", CANARY, "x" * 200)
        assert where in str(error)
    assert "no_such_database" in str(nowhere)
    assert CANARY not in caplog.text


@pytest.mark.mysql
async def test_a_login_whose_library_is_missing_says_which(unfriendly: Unfriendly, monkeypatch: pytest.MonkeyPatch) -> None:
    await unfriendly.run("CREATE OR REPLACE USER carl@`%` IDENTIFIED VIA ed25519 USING PASSWORD('right')")
    monkeypatch.setattr(auth, "_nacl_bindings", None)
    monkeypatch.setitem(sys.modules, "nacl", None)
    error = await failure_of(unfriendly.url(f"carl:{CANARY}"))
    assert "'pynacl' package is required" in str(error)
    assert_no_credential(error, "carl", CANARY)


@pytest.mark.mysql
async def test_a_missing_privilege_does_not_name_the_user(unfriendly: Unfriendly) -> None:
    await unfriendly.run(
        "CREATE OR REPLACE USER dora@`%` IDENTIFIED BY 'right'",
        "CREATE DATABASE own",
        "CREATE TABLE own.t (id int)",
        "GRANT SELECT ON own.* TO dora@`%`",
    )
    pool = pool_of(unfriendly.url("dora:right").replace("/test", "/own"), command_timeout=10.0)
    await pool.open()
    async with pool.connection(Use.STATEMENT, "test") as connection:
        with pytest.raises(StatementError, match=r"1142: INSERT command denied to user '\*\*\*'@") as caught:
            await connection.execute("INSERT INTO t VALUES (1)")
        assert not connection.broken
    assert_no_credential(caught.value, "dora")
    await pool.close(1.0)
