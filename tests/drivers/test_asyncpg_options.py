"""Options of a Postgres URL: libpq's are carried out or refused, and the others are the server's settings."""

from __future__ import annotations

import socket
import sys

import pytest

from faststream_sql.drivers import open_pool
from faststream_sql.drivers.asyncpg import AsyncpgConnection
from faststream_sql.drivers.asyncpg_connect import NEEDLESS, connect_arguments, socket_options
from faststream_sql.drivers.base import Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.errors import DeclarationError

NOTHING = connect_arguments(parse_url("postgresql://db/app"), None)


def arguments(query: str) -> dict[str, object]:
    return connect_arguments(parse_url(f"postgresql://db/app?{query}"), None)


@pytest.mark.parametrize("option", [f"{name}={value}" for name, values in NEEDLESS.items() for value in sorted(values)])
def test_what_asyncpg_does_anyway_is_left_out(option: str) -> None:
    assert arguments(option) == NOTHING


@pytest.mark.parametrize(
    "option",
    [
        "gssencmode=require", "channel_binding=require", "client_encoding=LATIN1", "hostaddr=10.0.0.1", "load_balance_hosts=random",
        "replication=database", "require_auth=scram-sha-256", "requirepeer=somebody", "ssl_min_protocol_version=TLSv1.3",
        "sslcrl=/crl.pem", "sslcertmode=require", "sslnegotiation=direct", "sslsni=0",
    ],
)  # fmt: skip
def test_what_asyncpg_cannot_do_is_refused(option: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(DeclarationError, match=f"cannot do what the option '{name}' asks for.*remove it") as refused:
        arguments(option)
    assert value not in str(refused.value).split("but as")[0]


def test_what_asyncpg_knows_and_what_the_server_knows() -> None:
    found = arguments("target_session_attrs=read-write&passfile=/p&service=s&connect_timeout=3&sslmode=require&statement_cache_size=0")
    assert {name: found[name] for name in found if found[name] != NOTHING.get(name)} == {
        "target_session_attrs": "read-write", "passfile": "/p", "service": "s", "timeout": 3.0, "ssl": "require", "statement_cache_size": 0,
    }  # fmt: skip
    assert arguments("options=-c%20geqo=off&statement_timeout=5000&search_path=jobs")["server_settings"] == {
        "application_name": "faststream_sql", "options": "-c geqo=off", "statement_timeout": "5000", "search_path": "jobs",
    }  # fmt: skip
    assert arguments("fallback_application_name=mailer")["server_settings"] == {"application_name": "mailer"}
    assert arguments("fallback_application_name=mailer&application_name=a")["server_settings"] == {"application_name": "a"}
    assert arguments("ssl=require")["ssl"] == arguments("sslmode=require")["ssl"] == "require"
    assert arguments("connect_timeout=&keepalives=&gssencmode=") == NOTHING


def test_socket_options_of_the_operating_system() -> None:
    def wanted(query: str) -> list[tuple[int, int, int]]:
        return socket_options(parse_url(f"postgresql://db/app?{query}"))

    assert wanted("application_name=a") == []
    assert wanted("keepalives=0") == [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)]
    assert wanted("keepalives_count=0") == [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    with pytest.raises(DeclarationError, match="'keepalives_idle' is a whole number"):
        wanted("keepalives_idle=soon")


@pytest.mark.skipif(sys.platform != "linux", reason="asks for the options that Linux has")
async def test_a_connection_is_kept_alive_as_the_url_says(postgres_url: str) -> None:
    query = "keepalives=1&keepalives_idle=30&keepalives_interval=5&keepalives_count=4&tcp_user_timeout=9000&options=-c%20geqo=off"
    pool = open_pool(parse_url(f"{postgres_url}?{query}"), size=2, acquire_timeout=5.0, command_timeout=5.0)
    await pool.open()
    async with pool.connection(Use.STATEMENT, "test") as connection:
        assert isinstance(connection, AsyncpgConnection)
        found = connection.raw._transport.get_extra_info("socket")
        names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        assert [found.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names] == [30, 5, 4, 9000]
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert [tuple(row) for row in await connection.fetch("SHOW geqo")] == [("off",)]
    await pool.close(1.0)
