"""Values of every kind, written into statements and read back, whatever the session takes a backslash for."""

from __future__ import annotations

import enum
import math
from collections.abc import AsyncIterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncmy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faststream_sql.drivers.asyncmy_values import literal
from faststream_sql.drivers.base import Connection, Use
from faststream_sql.errors import DataError, StatementError
from tests.drivers.pools import pool_of

pytestmark = pytest.mark.mysql


class Colour(str, enum.Enum):
    RED = "re'd"


class Level(enum.IntEnum):
    HIGH = 7


class Shout(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "'; DROP TABLE canary; --"


EVERY_BYTE = bytes(range(256))
BERLIN = timezone(timedelta(hours=2))


@pytest.fixture(params=["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"])
async def connection(request: pytest.FixtureRequest, mysql_url: str) -> AsyncIterator[Connection]:
    """On a session of ours; and on two that a caller lent, of the server's other modes."""
    pool = pool_of(mysql_url, command_timeout=10.0)
    await pool.open()
    if not request.param:
        async with pool.connection(Use.STATEMENT, "test") as own:
            yield own
    else:
        at = urlsplit(mysql_url)
        raw = await asyncmy.connect(
            host=at.hostname, port=at.port or 3306, user=at.username or "root", password=at.password or "", db=at.path[1:], autocommit=True
        )
        lent = await pool.borrow(raw)
        await lent.script(f"SET sql_mode = 'STRICT_TRANS_TABLES,{request.param}'")
        yield lent
        await raw.ensure_closed()
    await pool.close(1.0)


async def back(connection: Connection, kind: str, *values: object) -> list[Any]:
    """The values as a column gives them back."""
    await connection.script(f"CREATE OR REPLACE TABLE kept (n int AUTO_INCREMENT PRIMARY KEY, v {kind})")
    for value in values:
        await connection.execute("INSERT INTO kept (v) VALUES (%s)", [value])
    return [row[0] for row in await connection.fetch("SELECT v FROM kept ORDER BY n")]


TEXTS = [
    *("", "plain", "it's", "''", '"', "\\", "\\'", "\\\\'; DROP TABLE kept; -- ", "%", "%s", "%%s", "?", ":x", "a\0b", "\r\n\t\x1a", "`"),
    *("ünï", "😀", "\ufeff", "\U0010ffff", "ﬀ\u202e", "x" * 100_000),
]


async def test_texts(connection: Connection) -> None:
    assert await back(connection, "longtext CHARACTER SET utf8mb4", *TEXTS, Colour.RED, Shout("said")) == [*TEXTS, "re'd", "said"]


async def test_bytes(connection: Connection) -> None:
    values = [b"", EVERY_BYTE, EVERY_BYTE[::-1] * 300, b"'" * 9, b"\\" * 9, "😀".encode(), b"\xbf'", b"\xbf\\'"]
    assert await back(connection, "longblob", *values) == values
    assert await back(connection, "longblob", bytearray(EVERY_BYTE), memoryview(EVERY_BYTE)) == [EVERY_BYTE] * 2


async def test_numbers(connection: Connection) -> None:
    assert await back(connection, "bigint", 0, -1, 2**63 - 1, -(2**63), True, False, None, Level.HIGH) == [
        *(0, -1, 2**63 - 1, -(2**63), 1, 0, None, 7)
    ]
    assert await back(connection, "bigint unsigned", 2**64 - 1) == [2**64 - 1]
    assert await back(connection, "double", 0.1, -1.5e300, 5e-324, -0.0, 3.0) == [0.1, -1.5e300, 5e-324, 0.0, 3.0]
    decimals = [Decimal("0.10"), Decimal("-12345678901234567890.12"), Decimal("1E+3")]
    assert await back(connection, "decimal(40, 2)", *decimals) == decimals


async def test_times(connection: Connection) -> None:
    naive = datetime.fromisoformat("2024-02-29 23:59:59.999999")
    whole = datetime.fromisoformat("9999-12-31")
    aware = datetime(2024, 7, 1, 1, 30, 0, 1, tzinfo=BERLIN)
    assert await back(connection, "datetime(6)", naive, whole, aware) == [
        naive,
        whole,
        datetime.fromisoformat("2024-06-30 23:30:00.000001"),
    ]
    assert await back(connection, "date", date(2024, 2, 29)) == [date(2024, 2, 29)]
    spans = [timedelta(0), timedelta(days=-1, microseconds=5), timedelta(hours=837, minutes=59, seconds=59), timedelta(seconds=-0.25)]
    assert await back(connection, "time(6)", *spans) == spans
    assert await back(connection, "time(6)", time(23, 0, 1, 5)) == [timedelta(hours=23, seconds=1, microseconds=5)]


async def test_uuids_and_json(connection: Connection) -> None:
    value = UUID(int=5)
    assert await back(connection, "char(36)", value) == [str(value)]
    assert await back(connection, "json", '{"a": "\'\\\\"}') == ['{"a": "\'\\\\"}']


@pytest.mark.parametrize(
    "value",
    [
        *("\ud800", "\udcff", "\udce2\udc80\udc99", math.inf, -math.inf, math.nan, Decimal("NaN"), Decimal("-Infinity"), [1], (1, 2), {1}),
        *({"a": 1}, object(), 1j, range(3), time(1, tzinfo=BERLIN), datetime(1, 1, 1, tzinfo=BERLIN), enum.Enum("Plain", "A")["A"], int),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_values_that_cannot_be_written(connection: Connection, value: object) -> None:
    await connection.script("CREATE OR REPLACE TABLE kept (v longtext)")
    with pytest.raises(DataError, match="cannot be sent"):
        await connection.execute("INSERT INTO kept VALUES (%s)", [value])
    assert not connection.broken
    assert await connection.fetch("SELECT * FROM kept") == []


async def test_values_that_do_not_fit(connection: Connection) -> None:
    await connection.script("CREATE OR REPLACE TABLE kept (v int, b varbinary(3))")
    for statement, value, code in (
        ("INSERT INTO kept (v) VALUES (%s)", 2**100, "1264"),
        ("INSERT INTO kept (v) VALUES (%s)", "many", "1366"),
        ("INSERT INTO kept (b) VALUES (%s)", b"four", "1406"),
    ):
        with pytest.raises(DataError) as caught:
            await connection.execute(statement, [value])
        assert caught.value.code == code


async def test_too_few_and_too_many_values(connection: Connection) -> None:
    for values in ([], [1, 2]):
        with pytest.raises(DataError):
            await connection.fetch("SELECT %s", values)


HOSTILE_NAMES = ["%", "%s", "100%%s", "a b", "a?b", "a``b", "'", '"', "\\", ";", "-- x", "ünï", "select", ":x", "x" * 64]


async def test_names(connection: Connection) -> None:
    """As a dialect writes them: quoted, a percent sign twice, since a statement's text is a format."""
    for name in HOSTILE_NAMES:
        quoted = "`" + name.replace("%", "%%") + "`"
        await connection.execute(f"CREATE OR REPLACE TABLE named (id int PRIMARY KEY, {quoted} text)")
        await connection.prepare(f"SELECT {quoted} FROM named WHERE {quoted} = %s AND id IN (%s, %s)")
        await connection.execute("INSERT INTO named VALUES (%s, %s)", [1, name])
        assert [tuple(row) for row in await connection.fetch(f"SELECT {quoted} FROM named WHERE {quoted} = %s", [name])] == [(name,)]
        assert [facts.name for facts in await connection.columns("named", None)] == ["id", name.replace("``", "`")]
        with pytest.raises(StatementError):
            await connection.prepare(f"SELECT {quoted} FROM named WHERE nothing = %s")


async def test_zero_dates_and_bad_bytes_cost_no_session(connection: Connection) -> None:
    """What a row holds is judged where it is read: its driver hands it over as it is."""
    await connection.script("SET sql_mode = ''; CREATE OR REPLACE TABLE odd (t datetime, d date, b binary(3), g point)")
    await connection.execute("INSERT INTO odd VALUES ('0000-00-00', '2024-00-31', %s, POINT(1, 2))", [b"\xff\xfe\xfd"])
    ((moment, day, binary, _),) = await connection.fetch("SELECT * FROM odd")
    assert (moment, day, binary) == ("0000-00-00 00:00:00", "2024-00-31", b"\xff\xfe\xfd")
    assert [tuple(row) for row in await connection.fetch("SELECT 1")] == [(1,)]


# --- the text alone ----------------------------------------------------------------------------------------------------------------------


def parsed(text: bytes, *, backslashes: bool) -> bytes:
    """What a server reads out of a literal in quotes; it must end with the text."""
    body, found, at = text, b"", 1
    assert body[:1] == b"'"
    while True:
        if backslashes and body[at : at + 1] == b"\\":
            found += body[at + 1 : at + 2]
            at += 2
        elif body[at : at + 2] == b"''":
            found += b"'"
            at += 2
        elif body[at : at + 1] == b"'":
            assert at == len(body) - 1, "the literal ends before the value does"
            return found
        else:
            assert at < len(body)
            found += body[at : at + 1]
            at += 1


@given(st.binary() | st.text(st.sampled_from("'\\\"a%\0")).map(str.encode), st.booleans())
def test_a_literal_ends_where_its_value_does(value: bytes, backslashes: bool) -> None:
    assert parsed(literal(value, backslashes=backslashes).removeprefix(b"_binary"), backslashes=backslashes) == value
