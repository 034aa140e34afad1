"""Every block of the README and the docs runs, or is checked against what it talks about."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest

from faststream_sql.dialects import dialect_for
from faststream_sql.table import QueueTable

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TIMED_OUT_MEANS_IT_RUNS = {"README.md"}  # its service runs until it is stopped
KNOWN = {"python", "console", "sql sqlite", "sql postgres", "sql", "text", "bash", "json", "toml"}


class Block(NamedTuple):
    page: str
    kind: str
    text: str


BLOCKS = [Block(page.name, found["kind"].strip(), found["text"]) for page in PAGES for found in FENCE.finditer(page.read_text())]


def of_kind(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind]


def test_every_block_has_a_way_to_run_it() -> None:
    assert {block.kind for block in BLOCKS} <= KNOWN


@pytest.mark.parametrize("page", sorted({block.page for block in of_kind("python")}))
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    code = "\n".join(block.text for block in of_kind("python") if block.page == page)
    script = tmp_path / "page.py"
    runs_on = page in TIMED_OUT_MEANS_IT_RUNS
    script.write_text(code + ("\nimport asyncio\nasyncio.run(app.run())\n" if runs_on else ""))
    command = [sys.executable, "-W", "error::DeprecationWarning", str(script)]
    try:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3 if runs_on else 40,
            check=False,
            env={"PYTHONPATH": str(ROOT)},
        )
        printed, ended_well = done.stdout, done.returncode == 0
    except subprocess.TimeoutExpired as error:
        printed, ended_well = str(error.stdout), runs_on
    assert ended_well, printed
    assert not runs_on or "sending to ann" in printed


def test_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in of_kind("console"):
        for target in re.findall(r"^\$ make ([a-z-]+)", block.text, re.MULTILINE):
            assert target in targets, block


@pytest.mark.parametrize("block", of_kind("sql sqlite"), ids=lambda block: block.page)
def test_sql_for_sqlite_runs(block: Block) -> None:
    database = sqlite3.connect(":memory:")
    for text in dialect_for("sqlite").ddl(QueueTable.default()):
        database.execute(text)
    database.executescript(block.text)
    database.close()


@pytest.mark.parametrize("block", of_kind("sql postgres"), ids=lambda block: block.page)
async def test_sql_for_postgres_runs(block: Block, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(block.text)
    await connection.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
