"""The package as a user installs it: a wheel, in a fresh environment, with nothing but what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SCRIPT = """
import asyncio, importlib.resources
import faststream_sql
from faststream_sql import SQLBroker, SQLBrokerError, TestSQLBroker

assert importlib.resources.files(faststream_sql).joinpath("py.typed").is_file()
for name in faststream_sql.__all__:
    getattr(faststream_sql, name)

async def main() -> None:
    for url in ("sqlite:///mail.db", "postgresql://db/app", "mysql://db/app"):
        broker = SQLBroker(url, logger=None)

        @broker.subscriber("emails")
        async def send(to: str) -> None: ...

        try:
            await broker.start()
        except SQLBrokerError as error:
            print(error)
        async with TestSQLBroker(broker) as br:
            await br.publish("ann", "emails")
            send.mock.assert_called_once_with("ann")

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_installs_and_imports_with_nothing_but_what_it_needs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "fresh")], check=True)
    python = tmp_path / "fresh" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert installed.returncode == 0, installed.stdout
    done = subprocess.run(
        [python, "-W", "ignore::RuntimeWarning", "-c", SCRIPT],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == [
        "sqlite needs the library 'aiosqlite': pip install 'faststream-sql[sqlite]'",
        "postgresql needs the library 'asyncpg': pip install 'faststream-sql[postgres]'",
        "mysql needs the library 'asyncmy': pip install 'faststream-sql[mysql]'",
    ]
