"""Every block of the README and the docs runs, or is checked against what it talks about."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

import faststream_sql
from faststream_sql.dialects import dialect_for
from faststream_sql.table import QueueTable
from tests.docs.pages import BLOCKS, PAGES, ROOT, Block, of

TUTORIAL = "docs/tutorial.md"  # followed step by step in test_tutorial.py
RUNS_ON = {"README.md": "sending to ann"}  # a service that runs until it is stopped, and what it has printed by then
TITLES = {
    "python": {"", "Postgres"},
    "sql": {"", "SQLite", "Postgres"},  # without a title: shown, and covered by the golden files of the statements
    "text": {"", "output"},
    "console": {""},
    "json": {""},
    "toml": {""},
}


def test_every_block_has_a_way_to_run_it() -> None:
    for block in BLOCKS:
        if block.page != TUTORIAL:
            assert block.title in TITLES[block.language], block
        assert not block.rest, block


def pages_with_python(title: str) -> list[str]:
    return sorted({block.page for block in of("python") if block.title == title and block.page != TUTORIAL})


def run_python(page: str, title: str, folder: Path, environment: dict[str, str]) -> str:
    """Run the blocks of a page as one script, to its end, and return what it prints."""
    code = "\n".join(block.text for block in of("python") if block.page == page and block.title == title)
    if page in RUNS_ON:
        code += "\nimport asyncio\nasyncio.run(app.run())\n"
    script = folder / "page.py"
    script.write_text(code)
    with subprocess.Popen(
        [sys.executable, "-W", "error::DeprecationWarning", str(script)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment},
    ) as running:
        limit = threading.Timer(50, running.kill)
        limit.start()
        try:
            printed = ""
            for line in running.stdout or ():
                printed += line
                if RUNS_ON.get(page, "\0") in line:
                    running.terminate()
            assert running.wait() == 0, printed
        finally:
            limit.cancel()
    assert RUNS_ON.get(page, "") in printed
    return printed


def check_output(page: str, printed: str) -> None:
    """Every line that the page promises was printed."""
    for block in of("text", "output"):
        if block.page == page:
            missing = [line for line in block.text.splitlines() if line and line not in printed]
            assert not missing, printed


@pytest.mark.parametrize("page", pages_with_python(""))
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    printed = run_python(page, "", tmp_path, {})
    if not any(block.title == "Postgres" for block in of("python") if block.page == page):
        check_output(page, printed)


@pytest.mark.parametrize("page", pages_with_python("Postgres"))
def test_the_python_of_a_page_runs_on_postgres(page: str, tmp_path: Path, postgres_url: str) -> None:
    check_output(page, run_python(page, "Postgres", tmp_path, postgres_environment(postgres_url)))


def postgres_environment(url: str) -> dict[str, str]:
    """The variables that libpq, asyncpg and a broker of `postgresql://` read."""
    parts = urlsplit(url)
    values = {
        "PGHOST": parts.hostname,
        "PGPORT": str(parts.port or 5432),
        "PGUSER": parts.username,
        "PGPASSWORD": parts.password,
        "PGDATABASE": parts.path.removeprefix("/"),
    }
    return {"PATH": os.environ["PATH"], **{name: value for name, value in values.items() if value}}


def test_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in of("console"):
        for target in re.findall(r"^\$ make ([a-z-]+)", block.text, re.MULTILINE):
            assert target in targets, block


@pytest.mark.parametrize("block", of("sql", "SQLite"), ids=lambda block: block.page)
def test_sql_for_sqlite_runs(block: Block) -> None:
    database = sqlite3.connect(":memory:")
    for text in dialect_for("sqlite").ddl(QueueTable.default()):
        database.execute(text)
    database.executescript(block.text)
    database.close()


@pytest.mark.parametrize("block", of("sql", "Postgres"), ids=lambda block: block.page)
async def test_sql_for_postgres_runs(block: Block, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(block.text)
    await connection.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_name_has_its_place_in_the_reference() -> None:
    reference = "".join(page.read_text() for page in PAGES if page.parent.name == "reference")
    named = set(re.findall(r"^::: ([\w.]+)$", reference, re.MULTILINE))
    whole = {name for module in named if module == "faststream_sql.errors" for name in vars(faststream_sql.errors)}
    documented = {name.rpartition(".")[2] for name in named} | whole
    assert set(faststream_sql.__all__) <= documented
