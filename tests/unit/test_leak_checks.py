"""The checks in `conftest.py` see what they are there for: each leaky test below fails, at its own end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LEAKY = """
import asyncio, socket, threading
import asyncpg, pytest

kept = []

async def test_task():
    kept.append(asyncio.create_task(asyncio.sleep(30)))

async def test_thread(request):
    stop = threading.Event()
    threading.Thread(target=stop.wait).start()
    kept.append(stop)

async def test_socket():
    cycle = [socket.socket()]
    cycle.append(cycle)

async def test_session(postgres_url):
    kept.append(await asyncpg.connect(postgres_url, server_settings={"application_name": "faststream_sql"}))

async def test_lock(postgres_url):
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("BEGIN; CREATE TABLE a (id int)")
    kept.append(connection)

async def test_executor():  # its threads end with the loop: no leak
    await asyncio.to_thread(threading.get_ident)

async def test_clean():
    await asyncio.create_task(asyncio.sleep(0))

def test_release():
    kept[1].set()
"""


@pytest.mark.slow
@pytest.mark.postgres
def test_what_a_test_leaves_behind_fails_it(tmp_path: Path) -> None:
    file = tmp_path / "test_leaky.py"
    file.write_text(LEAKY)
    command = f"{sys.executable} -m pytest -p tests.conftest -c pyproject.toml --rootdir . -p no:cacheprovider -rEfp {file}"
    run = subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=False)
    failed = set(re.findall(r"^(?:ERROR|FAILED) \S*::(\w+)", run.stdout, re.MULTILINE))
    assert failed == {"test_task", "test_thread", "test_socket", "test_session", "test_lock"}, run.stdout + run.stderr
    for words in ("tasks left pending", "threads left running", "<socket.socket fd=", "is idle, its last statement", "holds relation"):
        assert words in run.stdout, run.stdout
