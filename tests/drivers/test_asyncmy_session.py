"""asyncmy's connections: TLS, options, and sessions on a server whose defaults are all against us."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncmy
import pytest
from faststream.security import BaseSecurity, SASLPlaintext

from faststream_sql import SQLBroker
from faststream_sql.dialects import dialect_for
from faststream_sql.drivers import asyncmy as driver
from faststream_sql.drivers.asyncmy import AsyncmyPool, server_of
from faststream_sql.drivers.base import Pool, Query, Server, Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.engine.startup import check_server
from faststream_sql.errors import ConnectionLostError, DeclarationError, ServerTooOldError, StatementError, UnavailableError
from tests.databases import MySQLDatabase
from tests.drivers.conftest import Unfriendly
from tests.drivers.pools import CANARY, assert_no_credential, failure_of, pool_of

pytestmark = pytest.mark.mysql


# --- TLS ---------------------------------------------------------------------------------------------------------------------------------


async def cipher_of(url: str, tls: ssl.SSLContext | None = None) -> str:
    """How the session is encrypted; an empty text where it is not."""
    pool = AsyncmyPool(parse_url(url), size=2, acquire_timeout=5.0, command_timeout=10.0, tls=tls)
    await pool.open()
    try:
        async with pool.connection(Use.STATEMENT, "test") as connection:
            return str((await connection.fetch("SHOW STATUS LIKE 'Ssl_cipher'"))[0][1])
    finally:
        await pool.close(1.0)


@pytest.mark.parametrize(
    ("host", "query", "encrypted"),
    [
        ("127.0.0.1", "", False),
        ("127.0.0.1", "?ssl_mode=disabled", False),
        ("127.0.0.1", "?ssl=false", False),
        ("127.0.0.1", "?ssl_mode=required", True),
        ("127.0.0.1", "?ssl-mode=REQUIRED", True),
        ("127.0.0.1", "?ssl_mode=verify_ca&ssl_ca={ca}", True),
        ("127.0.0.1", "?ssl_ca={ca}", True),
        ("localhost", "?ssl_mode=VERIFY_IDENTITY&ssl_ca={ca}", True),
        ("localhost", "?ssl=true&ssl_ca={ca}", True),
        ("localhost", "?ssl_mode=verify_identity&ssl_ca={ca}&ssl_cert={cert}&ssl_key={key}", True),
    ],
)
async def test_tls(unfriendly: Unfriendly, host: str, query: str, encrypted: bool) -> None:
    at = unfriendly.certificates
    query = query.format(ca=at / "ca.pem", cert=at / "server.pem", key=at / "server.key")
    assert bool(await cipher_of(unfriendly.url(host=host, query=query))) is encrypted


@pytest.mark.parametrize(
    ("host", "query"),
    [
        ("localhost", "?ssl=true"),  # a certificate that no known authority signed
        ("localhost", "?ssl_mode=verify_ca"),
        ("localhost", "?ssl_mode=verify_ca&ssl_ca={other}"),
        ("localhost", "?ssl_mode=required&ssl_ca={other}"),
        ("127.0.0.1", "?ssl_mode=verify_identity&ssl_ca={ca}"),  # the certificate is for localhost
        ("127.0.0.1", "?ssl=true&ssl_ca={ca}"),
    ],
)
async def test_a_server_that_cannot_be_trusted(unfriendly: Unfriendly, host: str, query: str) -> None:
    query = query.format(ca=unfriendly.certificates / "ca.pem", other=unfriendly.certificates / "other.pem")
    error = await failure_of(unfriendly.url(f"eve:{CANARY}", host, query))
    assert "certificate verify failed" in str(error)
    assert_no_credential(error, "eve", CANARY)


async def test_a_server_without_tls_is_not_spoken_to_in_the_clear(mysql_url: str) -> None:
    error = await failure_of(f"{mysql_url}?ssl_mode=required")
    assert "SSL" in str(error) or "TLS" in str(error) or "handshake" in str(error)


async def test_security_objects(unfriendly: Unfriendly) -> None:
    await unfriendly.run("CREATE OR REPLACE USER fay@`%` IDENTIFIED BY 'пароль' REQUIRE SSL")
    context = ssl.create_default_context(cafile=str(unfriendly.certificates / "ca.pem"))
    url = unfriendly.url("nobody", host="localhost")
    broker = SQLBroker(url, security=SASLPlaintext("fay", "пароль", ssl_context=context), logger=None)
    await broker.connect()
    assert await broker.ping()
    await broker.stop()
    for security in (BaseSecurity(use_ssl=True), SASLPlaintext("fay", "пароль", use_ssl=True)):
        broker = SQLBroker(url, security=security, logger=None)
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await broker.connect()
    broker = SQLBroker(url, security=SASLPlaintext("fay", "пароль"), logger=None)
    with pytest.raises(UnavailableError, match="1045"):
        await broker.connect()


@asynccontextmanager
async def asking(plugin: bytes, heard: list[bytes]) -> AsyncIterator[int]:
    """The port of a server that asks for the password by a plugin of its choice, and keeps what it hears."""

    def packet(number: int, body: bytes) -> bytes:
        return len(body).to_bytes(3, "little") + bytes([number]) + body

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        salt = b"a" * 8 + b"\0" + b"\xff\xf7\x21\x02\x00\xff\x81\x15" + b"\0" * 10 + b"b" * 12 + b"\0mysql_native_password\0"
        writer.write(packet(0, b"\x0a10.11.0-MariaDB\0" + b"\1\0\0\0" + salt))
        heard.append(await reader.read(4096))
        question = b"\x02Password: " if plugin == b"dialog" else b""
        writer.write(packet(2, b"\xfe" + plugin + b"\0" + question))
        heard.append(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog"], ids=["clear", "dialog"])
async def test_a_password_is_not_sent_in_the_clear(plugin: bytes) -> None:
    heard: list[bytes] = []
    async with asking(plugin, heard) as port:
        error = await failure_of(f"mysql://gil:{CANARY}@127.0.0.1:{port}/app")
    assert "asks for the password in the clear" in str(error)
    assert_no_credential(error, "gil", CANARY)
    assert b"gil" in heard[0]
    assert CANARY.encode() not in b"".join(heard)


# --- what a URL may say ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?colour=red", r"option 'colour' is not known\. Known are charset, connect_timeout"),
        ("?charset=latin1", "charset=latin1 cannot be"),
        ("?ssl=perhaps", "ssl=perhaps cannot be"),
        ("?ssl_mode=preferred", "ssl_mode=preferred cannot be"),
        ("?ssl_ca=/nowhere/ca.pem", "cannot be read as certificates.*No such file"),
        ("?ssl_ca=/etc/hostname", "cannot be read as certificates"),
        ("?connect_timeout=soon", "connect_timeout=soon cannot be"),
        ("?connect_timeout=0", "connect_timeout=0 cannot be"),
        ("?connect_timeout=nan", "connect_timeout=nan cannot be"),
        ("?connect_timeout=-1", "connect_timeout=-1 cannot be"),
    ],
)
async def test_options_that_cannot_be(query: str, says: str) -> None:
    pool = pool_of(f"mysql://hal_canary:{CANARY}@127.0.0.1:1/app{query}")
    with pytest.raises(DeclarationError, match=says) as caught:
        await pool.open()
    assert_no_credential(caught.value, "hal_canary", CANARY)


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+asyncmy", "mariadb+asyncmy"])
async def test_schemes(mysql_url: str, scheme: str) -> None:
    pool = pool_of(urlsplit(mysql_url)._replace(scheme=scheme).geturl() + "?charset=utf8mb4&connect_timeout=5", command_timeout=10.0)
    server = await pool.open()
    await pool.close(1.0)
    assert server.product in {"mariadb", "mysql"}


async def test_a_unix_socket(unfriendly: Unfriendly) -> None:
    socket = unfriendly.server.folder / "data" / "s"
    unfriendly.server.folder.chmod(0o755)
    for url in (f"mysql://root@localhost/test?unix_socket={socket}", f"mysql://root@/test?host={socket}"):
        pool = pool_of(url.replace("@localhost", "@"), command_timeout=10.0)
        await pool.open()
        async with pool.connection(Use.STATEMENT, "test") as connection:
            ((who,),) = await connection.fetch("SELECT USER()")
        await pool.close(1.0)
        assert str(who).startswith("root@")
    error = await failure_of(f"mysql://root:{CANARY}@/test?unix_socket=/nowhere/socket")
    assert_no_credential(error, CANARY)
    assert "No such file" in str(error)


# --- sessions ----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def pool(unfriendly: Unfriendly) -> AsyncIterator[Pool]:
    opened = pool_of(unfriendly.url(), command_timeout=10.0, acquire_timeout=5.0)
    await opened.open()
    yield opened
    await opened.close(1.0)


async def test_a_session_is_what_statements_rely_on(pool: Pool) -> None:
    expected = {
        "autocommit": 1,
        "tx_isolation": "READ-COMMITTED",
        "time_zone": "+00:00",
        "character_set_client": "utf8mb4",
        "character_set_connection": "utf8mb4",
        "character_set_results": "utf8mb4",
        "innodb_lock_wait_timeout": 5,
        "lock_wait_timeout": 10,
    }
    async with pool.connection(Use.STATEMENT, "test") as connection:
        (row,) = await connection.fetch(f"SELECT {', '.join(f'@@{name}' for name in expected)}, @@sql_mode")
    assert dict(zip(expected, row, strict=False)) == expected
    assert "STRICT_TRANS_TABLES" in row[-1]
    assert "BACKSLASH" not in row[-1]
    assert "ANSI" not in row[-1]


async def test_texts_are_stored_as_they_are(unfriendly: Unfriendly, pool: Pool) -> None:
    async with pool.connection(Use.STATEMENT, "test") as connection:
        await connection.script("CREATE OR REPLACE TABLE texts (note varchar(20) CHARACTER SET utf8mb4)")
        await connection.execute("INSERT INTO texts VALUES (%s)", ["ünï 😀"])
        assert await connection.fetch("SELECT note, HEX(note) FROM texts") == [("ünï 😀", "ünï 😀".encode().hex().upper())]


async def test_ids_of_several_rows_by_the_servers_step(pool: Pool) -> None:
    """As MySQL's dialect has them, which has no INSERT … RETURNING."""
    async with pool.connection(Use.STATEMENT, "test") as connection:
        await connection.script("CREATE OR REPLACE TABLE numbered (id bigint AUTO_INCREMENT PRIMARY KEY, n int)")
        ids = await connection.fetch("INSERT INTO numbered (n) VALUES (%s), (%s), (%s)", [1, 2, 3])
        assert [tuple(row) for row in ids] == [(2,), (5,), (8,)]
        assert list(await connection.fetch("SELECT id FROM numbered ORDER BY n")) == ids
        assert [tuple(row) for row in await connection.fetch("INSERT INTO numbered (n) VALUES (%s)", [4])] == [(11,)]


async def test_ids_on_a_connection_that_a_caller_lent(unfriendly: Unfriendly, pool: Pool) -> None:
    raw = await asyncmy.connect(host="127.0.0.1", port=unfriendly.server.port, user="root", db="test", autocommit=True)
    borrowed = await pool.borrow(raw)
    await borrowed.script("SET NAMES utf8mb4; CREATE OR REPLACE TABLE numbered (id bigint AUTO_INCREMENT PRIMARY KEY, n int, b blob)")
    ids = await borrowed.fetch("INSERT INTO numbered (n, b) VALUES (%s, %s), (%s, %s)", [1, b"'\\", 2, b"\\'"])
    assert list(await borrowed.fetch("SELECT id FROM numbered ORDER BY n")) == ids
    assert [tuple(row) for row in await borrowed.fetch("SELECT b FROM numbered ORDER BY n")] == [(b"'\\",), (b"\\'",)]
    await raw.ensure_closed()


async def test_rows_under_a_client_that_stands_still_are_free_again(
    mysql_url: str, mysql_database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a locking read and its write nothing may last: a process that is stopped there would keep the rows from everyone."""
    monkeypatch.setattr(driver, "STANDSTILL_SECONDS", 1)
    pool = pool_of(mysql_url, command_timeout=20.0)
    await pool.open()
    looked: list[int] = []

    def until_free() -> None:
        patience = time.monotonic() + 15.0
        while not mysql_database._fetch(f"SELECT id FROM {mysql_database.name}.held FOR UPDATE SKIP LOCKED"):
            assert time.monotonic() < patience
            looked.append(1)

    def stand_still(rows: object) -> list[Query]:
        thread = threading.Thread(target=until_free)
        thread.start()
        thread.join()
        return [Query("UPDATE held SET n = 1")]

    async with pool.connection(Use.STATEMENT, "test") as connection:
        await connection.script("CREATE TABLE held (id int PRIMARY KEY, n int); INSERT INTO held VALUES (1, 0)")
        ((before,),) = await connection.fetch("SELECT @@wait_timeout")
        with pytest.raises(ConnectionLostError):
            await connection.select_then_write(Query("SELECT id FROM held FOR UPDATE"), stand_still)
    assert looked, "it was locked"
    async with pool.connection(Use.STATEMENT, "test") as connection:
        rows = await connection.select_then_write(Query("SELECT id, n FROM held FOR UPDATE"), lambda _: [Query("UPDATE held SET n = 2")])
        assert [tuple(row) for row in rows] == [(1, 0)]
        with pytest.raises(StatementError):
            await connection.select_then_write(Query("SELECT id FROM held FOR UPDATE"), lambda _: [Query("UPDATE nowhere SET n = 3")])
        assert not connection.in_transaction
        assert await connection.fetch("SELECT n, @@wait_timeout FROM held") == [(2, before)], "an idle session lasts as long as before"
    await pool.close(1.0)


async def test_a_server_that_logs_statements_is_refused(unfriendly: Unfriendly) -> None:
    await unfriendly.run("SET GLOBAL binlog_format = 'STATEMENT'")
    pool = pool_of(unfriendly.url(), command_timeout=10.0)
    try:
        server = await pool.open()
    finally:
        await pool.close(1.0)
        await unfriendly.run("SET GLOBAL binlog_format = 'ROW'")
    for form in ("lease", "row_lock", "advisory"):
        with pytest.raises(DeclarationError, match=r"MariaDB 10\..*binlog_format=STATEMENT .* set ROW"):
            check_server(dialect_for("mariadb"), server, form)


# --- which server it is ------------------------------------------------------------------------------------------------------------------


class Variables:
    """A connection that answers with a server's variables."""

    def __init__(self, **values: str) -> None:
        self.values = values

    async def fetch(self, text: str, args: object = (), *, timeout: float | None = None) -> list[tuple[str, str]]:
        return list(self.values.items())


async def server_with(**values: str) -> Server:
    connection: object = Variables(**values)
    return await server_of(connection)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "product", "numbers"),
    [
        ("5.5.5-10.6.21-MariaDB", "mariadb", (10, 6, 21)),
        ("10.11.19-MariaDB-0+deb12u1", "mariadb", (10, 11, 19)),
        ("11.4.2-MariaDB-log", "mariadb", (11, 4, 2)),
        ("8.0.36", "mysql", (8, 0, 36)),
        ("8.4.0-0ubuntu0.24.04.1", "mysql", (8, 4, 0)),
        ("9.1.0-commercial", "mysql", (9, 1, 0)),
        ("5.5.5", "mysql", (5, 5, 5)),
        ("unknown", "mysql", ()),
    ],
)
async def test_versions(version: str, product: str, numbers: tuple[int, ...]) -> None:
    server = await server_with(version=version, log_bin="OFF")
    assert (server.product, server.version, server.detail) == (product, numbers, version)


@pytest.mark.parametrize(
    ("version", "form", "old"),
    [
        ("10.5.99-MariaDB", "lease", True),
        ("5.5.5-10.5.8-MariaDB", "row_lock", True),
        ("10.6.0-MariaDB", "lease", False),
        ("11.0.1-MariaDB", "row_lock", False),
        ("8.0.0", "row_lock", True),
        ("8.0.1", "row_lock", False),
        ("5.7.44", "lease", True),
        ("9.0.0", "lease", False),
        ("unknown", "lease", True),
    ],
)
async def test_servers_that_are_too_old(version: str, form: str, old: bool) -> None:
    server = await server_with(version=version)
    dialect = dialect_for(server.product, server.version)
    if old:
        with pytest.raises(ServerTooOldError, match=f"{dialect.product} {version} is too old for"):
            check_server(dialect, server, form)
    else:
        check_server(dialect, server, form)


async def test_what_settings_rule_out() -> None:
    galera = await server_with(version="10.11.2-MariaDB", wsrep_on="ON", log_bin="ON", binlog_format="ROW")
    assert set(galera.refuses) == {"advisory", "fifo"}
    with pytest.raises(DeclarationError, match="Galera"):
        check_server(dialect_for("mariadb"), galera, "advisory")
    assert any("Galera" in warning for warning in galera.warnings)
    unlogged = await server_with(version="10.11.2-MariaDB", wsrep_on="OFF", log_bin="OFF", binlog_format="STATEMENT")
    assert not unlogged.refuses
    assert not unlogged.warnings
