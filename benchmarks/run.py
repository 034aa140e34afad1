"""Measures ratios inside one run: every case in turn, round after round, best and median.

    make bench
    make bench ARGS="--rounds 3 --messages 10000 --backlog 1000000"

Postgres comes from `POSTGRES_TEST_URL`, MariaDB from `MYSQL_TEST_URL`, else from the tests' own servers. One process works; the servers
have the other core.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.ceiling import ceiling
from benchmarks.common import Figure
from benchmarks.drains import drain, engine_alone
from benchmarks.loops import raw_advisory, raw_lease, raw_row_lock, raw_sqlite_lease
from benchmarks.publishing import publish, raw_insert
from benchmarks.waiting import idle_statements, latency, memory
from tests.servers import mysql_server, postgres_server

Case = Callable[[], Awaitable[Figure]]


CEILING = "C: FastStream alone"
COMPARED = [
    ("P1", "lease x16, Postgres", CEILING, 0.85),
    ("P2", "lease x16, SQLite", CEILING, 0.80),
    ("P2", "lease x16, MariaDB", CEILING, 0.70),
    ("P3", "row lock x8, Postgres", "raw row lock x8, Postgres", 1.0),
    ("P4", "advisory lock x8, Postgres", "raw advisory lock x8, Postgres", 0.8),
    ("P6", "engine alone, lease x16, Postgres", CEILING, 1.02),  # pgqueuer at its best did 10,761 where C did 10,600
    ("P7", "publish, Postgres", "raw insert, Postgres", 0.7),
    ("P7", "publish_batch of 1000, Postgres", "raw insert of 1000, Postgres", 0.6),
    ("P11", "lease x16 with SQLMessage, Postgres", CEILING, 0.6),
]


def cases(postgres: str, mariadb: str, folder: Path, messages: int) -> dict[str, Case]:
    fewer = max(messages // 2 // 1000, 1) * 1000
    sqlite = f"sqlite:///{folder / 'bench.db'}"

    def fresh_sqlite() -> None:
        for path in folder.glob("*"):
            path.unlink()

    async def on_sqlite() -> Figure:
        fresh_sqlite()
        return await drain(sqlite, "lease", messages, 16)

    async def raw_on_sqlite() -> Figure:
        fresh_sqlite()
        return await raw_sqlite_lease(folder / "raw.db", messages, 100)

    return {
        CEILING: lambda: ceiling(messages),
        "raw row lock x8, Postgres": lambda: raw_row_lock(postgres, fewer, 8),
        "raw advisory lock x8, Postgres": lambda: raw_advisory(postgres, fewer, 8),
        "raw lease 100, Postgres": lambda: raw_lease(postgres, messages, 100),
        "raw lease 100, SQLite": raw_on_sqlite,
        "raw insert, Postgres": lambda: raw_insert(postgres, fewer, 1),
        "raw insert of 1000, Postgres": lambda: raw_insert(postgres, messages * 2, 1000),
        "lease x16, Postgres": lambda: drain(postgres, "lease", messages, 16),
        "lease x16 with SQLMessage, Postgres": lambda: drain(postgres, "lease", messages, 16, with_message=True),
        "engine alone, lease x16, Postgres": lambda: engine_alone(postgres, messages, 16),
        "lease x16, SQLite": on_sqlite,
        "lease x16, MariaDB": lambda: drain(mariadb, "lease", messages, 16),
        "row lock x8, Postgres": lambda: drain(postgres, "row_lock", fewer, 8),
        "advisory lock x8, Postgres": lambda: drain(postgres, "advisory", fewer, 8),
        "publish, Postgres": lambda: publish(postgres, fewer, 1),
        "publish_batch of 1000, Postgres": lambda: publish(postgres, messages * 2, 1000),
    }


async def rates(rounds: int, messages: int, postgres: str, mariadb: str) -> None:
    found: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, case in cases(postgres, mariadb, Path(folder), messages).items():
                found.setdefault(name, []).append(await case())
                print(f"round {number + 1}: {name:38} {found[name][-1].rate:9,.0f} msg/s {found[name][-1].cpu_us:7.1f} us CPU", flush=True)
    print(f"\n{'case':38} {'best':>9} {'median':>9}  us CPU")
    for name, figures in found.items():
        per_second = [figure.rate for figure in figures]
        least = min(figure.cpu_us for figure in figures)
        print(f"{name:38} {max(per_second):9,.0f} {statistics.median(per_second):9,.0f} {least:7.1f}")
    print(f"\n{'':4} {'ratio of rates':72} {'best':>5} {'median':>6} {'CPU':>5} {'wanted':>6}")
    for label, name, reference, wanted in COMPARED:
        ratios = [ours.rate / theirs.rate for ours, theirs in zip(found[name], found[reference], strict=True)]
        cpu = min(figure.cpu_us for figure in found[reference]) / min(figure.cpu_us for figure in found[name])
        print(f"{label:4} {f'{name} / {reference}':72} {max(ratios):5.2f} {statistics.median(ratios):6.2f} {cpu:5.2f} {wanted:6.2f}")
    print("P5   a batch handler: not in this release")
    print("P9   a claim at a million rows: not measured here; tests/unit/test_plans.py holds claims to their index")


async def waiting(postgres: str, backlog: int) -> None:
    middle, late = await latency(postgres, 200, other_broker=False)
    print(f"P8   idle to handler, same broker: p50 {middle:.1f} ms, p95 {late:.1f} ms; wanted p50 3 ms")
    middle, late = await latency(postgres, 200, other_broker=True)
    print(f"P8   idle to handler, by listen_notify: p50 {middle:.1f} ms, p95 {late:.1f} ms; wanted p50 5 ms")
    print(f"P10  statements of an idle subscription per poll interval: {await idle_statements(postgres, 20):.2f}; wanted 1")
    print(f"P12  memory for {backlog:,} rows waiting: {await memory(postgres, backlog):+.1f} MB; wanted < 20")


async def main(rounds: int, messages: int, backlog: int) -> None:
    postgres, mariadb = postgres_server(), mysql_server()
    await rates(rounds, messages, postgres, mariadb)
    await waiting(postgres, backlog)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=10_000, help="for each case, in thousands")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="rows that wait while the memory is measured")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.rounds, max(arguments.messages // 1000, 1) * 1000, arguments.backlog))
