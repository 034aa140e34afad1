"""Measures ratios inside one run: every case in turn, round after round, best and median.

    make bench
    python -m benchmarks.run --rounds 3 --messages 10000

Postgres comes from `POSTGRES_TEST_URL`, else from the tests' own server. One process works; the server has the other core.
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
from benchmarks.loops import raw_lease, raw_row_lock, raw_sqlite_lease
from tests.servers import postgres_server

Case = Callable[[], Awaitable[Figure]]


def cases(postgres: str, folder: Path, messages: int) -> dict[str, Case]:
    fewer = max(messages // 2 // 1000, 1) * 1000
    sqlite = f"sqlite:///{folder / 'bench.db'}"

    def fresh_sqlite() -> None:
        for path in folder.glob("*"):
            path.unlink()

    async def on_sqlite(**options: bool) -> Figure:
        fresh_sqlite()
        return await drain(sqlite, "lease", messages, 16, **options)

    async def raw_on_sqlite() -> Figure:
        fresh_sqlite()
        return await raw_sqlite_lease(folder / "raw.db", messages, 100)

    return {
        "C: FastStream alone": lambda: ceiling(messages),
        "raw row lock x8, Postgres": lambda: raw_row_lock(postgres, fewer, 8),
        "raw lease 100, Postgres": lambda: raw_lease(postgres, messages, 100),
        "raw lease 100, SQLite": raw_on_sqlite,
        "lease x16, Postgres": lambda: drain(postgres, "lease", messages, 16),
        "lease x16 with SQLMessage, Postgres": lambda: drain(postgres, "lease", messages, 16, with_message=True),
        "row lock x8, Postgres": lambda: drain(postgres, "row_lock", fewer, 8),
        "lease x16, SQLite": on_sqlite,
        "engine alone, lease x16, Postgres": lambda: engine_alone(postgres, messages, 16),
    }


COMPARED = [
    ("P1", "lease x16, Postgres", "C: FastStream alone", 0.85),
    ("P2", "lease x16, SQLite", "C: FastStream alone", 0.80),
    ("P3", "row lock x8, Postgres", "raw row lock x8, Postgres", 1.0),
    ("P11", "lease x16 with SQLMessage, Postgres", "C: FastStream alone", 0.6),
]


async def main(rounds: int, messages: int) -> None:
    postgres = postgres_server()
    found: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, case in cases(postgres, Path(folder), messages).items():
                found.setdefault(name, []).append(await case())
                print(f"round {number + 1}: {name:38} {found[name][-1].rate:9,.0f} msg/s {found[name][-1].cpu_us:7.1f} us CPU", flush=True)
    print(f"\n{'case':38} {'best':>9} {'median':>9}  us CPU")
    for name, figures in found.items():
        rates = [figure.rate for figure in figures]
        print(f"{name:38} {max(rates):9,.0f} {statistics.median(rates):9,.0f} {min(figure.cpu_us for figure in figures):7.1f}")
    print()
    for label, name, reference, wanted in COMPARED:
        ratios = [ours.rate / theirs.rate for ours, theirs in zip(found[name], found[reference], strict=True)]
        print(f"{label}: {name} / {reference}: best {max(ratios):.2f}, median {statistics.median(ratios):.2f}, wanted {wanted:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=10_000, help="for each case, in thousands")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.rounds, max(arguments.messages // 1000, 1) * 1000))
