"""The advisory lock form: keys by id and by another column, held keys in front, other holders, and what a lost session costs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote, urlsplit

import asyncmy
import asyncpg
import pytest

from faststream_sql.dialects.base import LockThenTake
from faststream_sql.drivers.base import Use
from faststream_sql.engine import Ack, Delivery, Nack
from faststream_sql.errors import LeaseLostError
from tests.conformance.bench import Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


pytestmark = pytest.mark.forms("advisory")


class OtherProgram:
    """A session on the bench's database that is none of the broker's."""

    async def hold(self, key: str) -> None:
        """Take the lock that the broker takes for a key."""
        raise NotImplementedError

    async def locks(self) -> int:
        """How many locks anybody has on the key of row 1."""
        raise NotImplementedError

    async def end_sessions(self) -> None:
        """End every session that holds an advisory lock."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class OnPostgres(OtherProgram):
    def __init__(self, session: asyncpg.Connection) -> None:
        self._session = session

    async def hold(self, key: str) -> None:
        await self._session.execute("SELECT pg_advisory_lock(hashtextextended($1, 0))", key)

    async def locks(self) -> int:
        return int(
            await self._session.fetchval(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        )

    async def end_sessions(self) -> None:
        await self._session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        )

    async def close(self) -> None:
        await self._session.close()


class OnMySQL(OtherProgram):
    def __init__(self, session: asyncmy.connection.Connection, database: str) -> None:
        self._session = session
        self._database = database

    async def hold(self, key: str) -> None:
        name = f"{self._database}.{key}"
        if len(name) > 64 or len(name.encode()) > 192:
            name = hashlib.sha256(name.encode()).hexdigest()
        assert await self._value("SELECT GET_LOCK(%s, 0)", name) == 1

    async def locks(self) -> int:
        return 0 if await self._value("SELECT IS_FREE_LOCK(%s)", f"{self._database}.jobs-1") else 1

    async def end_sessions(self) -> None:
        holder = await self._value("SELECT IS_USED_LOCK(%s)", f"{self._database}.jobs-1")
        await self._value(f"KILL {holder}")

    async def close(self) -> None:
        await self._session.ensure_closed()

    async def _value(self, text: str, *args: object) -> object:
        async with self._session.cursor() as cursor:
            await cursor.execute(text, args or None)
            row = await cursor.fetchone()
        return row[0] if row else None


@pytest.fixture
async def other(pair: Pair, request: pytest.FixtureRequest) -> AsyncIterator[OtherProgram | None]:
    """None where the locks are the process's own."""
    if pair.database not in {"postgres", "mysql"}:
        yield None
        return
    url = request.getfixturevalue(f"{pair.database}_url")
    program: OtherProgram
    if pair.database == "postgres":
        program = OnPostgres(await asyncpg.connect(url))
    else:
        at = urlsplit(url)
        user, password, name = unquote(at.username or "root"), unquote(at.password or ""), at.path.strip("/")
        session = await asyncmy.connect(host=at.hostname, port=at.port or 3306, user=user, password=password, db=name, autocommit=True)
        program = OnMySQL(session, name)
    yield program
    await program.close()


@pytest.fixture
async def accounts(make_bench: MakeBench) -> Bench:
    return await make_bench(queue_table("advisory", columns=("account",), advisory_lock="accounts-{account}"))


async def test_the_claim_counts_the_attempt(bench: Bench) -> None:
    inside: list[object] = []

    async def look(delivery: Delivery) -> None:
        inside.extend(row["attempt"] for row in await bench.rows())
        await delivery.settle(Ack())

    await bench.publish(b"one")
    await bench.subscribe(look)
    await bench.until(lambda: len(bench.seen) == 1)
    assert inside == [2]
    assert bench.seen == [(b"one", 1)]


async def test_rows_of_one_account_never_overlap(accounts: Bench) -> None:
    working: set[object] = set()
    overlapped: list[object] = []
    most = 0

    async def work(delivery: Delivery) -> None:
        nonlocal most
        account = delivery.row["account"]
        overlapped.extend([account] if account in working else [])
        working.add(account)
        most = max(most, len(working))
        await asyncio.sleep(0.005)
        working.discard(account)
        await delivery.settle(Nack() if delivery.attempt == 1 and delivery.payload == b"3" else Ack())

    for n in range(40):
        await accounts.publish(b"%d" % n, columns={"account": str(n % 4)})
    await accounts.subscribe(work, max_workers=3)
    await accounts.subscribe(work, max_workers=3)
    await accounts.until_rows(lambda rows: rows == [])
    assert overlapped == []
    assert most > 1, "accounts run side by side"
    assert sorted({int(payload) for payload, _ in accounts.seen}) == list(range(40))


async def test_a_thousand_rows_of_a_held_key_hide_nothing(accounts: Bench) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work(delivery: Delivery) -> None:
        if delivery.payload == b"first":
            entered.set()
            await leave.wait()
        await delivery.settle(Ack())

    await accounts.publish(b"first", columns={"account": "busy"})
    await accounts.publish(*[b"waits"] * 1000, columns={"account": "busy"})
    await accounts.publish(b"behind", columns={"account": "free"})
    await accounts.subscribe(work, max_workers=2)
    await entered.wait()
    await accounts.until(lambda: (b"behind", 1) in accounts.seen)
    leave.set()


@pytest.mark.databases("postgres", "mysql")
@pytest.mark.parametrize("account", ["7", "Zoë's", "back\\slash", "long" * 30, "😀" * 50], ids=["", "quote", "backslash", "long", "emoji"])
async def test_another_program_that_holds_the_lock_keeps_the_row_out(accounts: Bench, other: OtherProgram, account: str) -> None:
    await other.hold(f"accounts-{account}")
    await accounts.publish(b"held", columns={"account": account})
    await accounts.publish(b"free", columns={"account": "8"})
    await accounts.subscribe()
    await accounts.until(lambda: accounts.seen == [(b"free", 1)])
    await other.close()
    await accounts.until(lambda: accounts.seen == [(b"free", 1), (b"held", 1)])


@pytest.mark.databases("postgres", "mysql")
async def test_a_session_that_ends_loses_its_row_to_the_next_worker(bench: Bench, other: OtherProgram) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    errors: list[BaseException] = []

    async def stuck(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            entered.set()
            await leave.wait()
            try:
                await delivery.settle(Ack())
            except LeaseLostError as error:
                errors.append(error)
        else:
            await delivery.settle(Ack())

    await bench.publish(b"one")
    await bench.subscribe(stuck, max_workers=2)
    await entered.wait()
    await other.end_sessions()
    await bench.until(lambda: (b"one", 2) in bench.seen)
    leave.set()
    await bench.until(lambda: len(errors) == 1)
    assert bench.seen == [(b"one", 1), (b"one", 2)]
    await bench.until_rows(lambda rows: rows == [])


async def test_a_stop_lets_every_lock_go(bench: Bench, other: OtherProgram | None) -> None:
    entered = asyncio.Event()

    async def stuck(delivery: Delivery) -> None:
        entered.set()
        await asyncio.sleep(60)

    await bench.publish(b"one")
    subscription = await bench.subscribe(stuck)
    await entered.wait()
    await subscription.stop(0.05)
    (row,) = await bench.rows()
    assert row["attempt"] == 1, "the attempt is given back"
    if other is not None:
        assert await other.locks() == 0
    await bench.subscribe()
    await bench.until(lambda: (b"one", 1) in bench.seen[1:])


@pytest.mark.databases("mysql")
async def test_keys_that_differ_in_case_are_each_delivered(accounts: Bench) -> None:
    """MySQL takes the two for one lock, and MariaDB for two: either way none is lost, and none is delivered twice."""
    for account in ("Ann", "ann", "ANN" * 30, "ann" * 30):
        await accounts.publish(account.encode(), columns={"account": account})
    await accounts.subscribe(max_workers=4)
    await accounts.until_rows(lambda rows: rows == [])
    assert sorted(accounts.seen) == sorted((account.encode(), 1) for account in ("Ann", "ann", "ANN" * 30, "ann" * 30))


@pytest.mark.databases("mysql")
async def test_a_key_that_changed_under_the_claim_is_let_go(accounts: Bench, other: OtherProgram) -> None:
    """The row moves to another account between the lock and the take: it is held by its new key, never by the old one."""
    await accounts.publish(b"moved", columns={"account": "1"})
    statements = accounts.engine.dialect.advisory(accounts.table, accounts.engine.dialect.recommended_types(accounts.table), None)
    assert isinstance(statements.claim, LockThenTake)
    now = accounts.engine.clock.now()
    values = {"group": "jobs", "now": now, "busy": None, "steps": 0}
    async with accounts.pool.connection(Use.STATEMENT, "test") as session:
        ((key, row_id),) = await session.fetch(*statements.claim.lock.bind(values))
        await accounts.sql("UPDATE jobs SET account = '2'")
        take = statements.claim.take.select
        assert await session.fetch(*take.bind({**values, "id": row_id, "key": key})) == []
        await session.fetch("SELECT RELEASE_ALL_LOCKS()")
    await accounts.subscribe()
    await accounts.until(lambda: accounts.seen == [(b"moved", 1)])
