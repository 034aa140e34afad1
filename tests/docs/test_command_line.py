"""The command line's page: every command that it shows is run, and prints what it shows."""

from __future__ import annotations

import sqlite3
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from faststream_sql.cli import main
from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "command-line.md"
ROW = "INSERT INTO faststream_queue (queue, attempt, retry_after, payload, headers) VALUES (?, ?, ?, ?, ?)"


def examples() -> list[tuple[str, list[str]]]:
    """Each command, with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks_of(PAGE):
        if block.language == "console":
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    found.append((line.removeprefix("$ "), []))
                else:
                    found[-1][1].append(line.rstrip())
    return found


def moment(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%S.%f}+00:00"


def migrate(folder: Path, ddl: str) -> None:
    """What the page's first example is for; and a database of an earlier release."""
    for name in ("mail.db", "staging.db"):
        database = sqlite3.connect(folder / name)
        database.executescript(ddl)
        if name == "staging.db":
            database.executescript("ALTER TABLE faststream_queue DROP headers; ALTER TABLE faststream_queue DROP attempt")
        database.close()


def fill(folder: Path) -> None:
    now, given_up = datetime.now(timezone.utc), "2026-03-01T09:00:00.000000+00:00"
    rows = [("emails", 1, moment(now - timedelta(hours=hours, minutes=30)), b"a", None) for hours in (3, 1)]
    rows.append(("emails", 1, moment(now + timedelta(hours=1)), b"a", None))
    rows += [("emails.dead", 5, given_up, payload, '{"correlation_id": "9b2f"}') for payload in (b"ann@example", b"bob", b"eve")]
    rows.append(("letters", 1, moment(now - timedelta(hours=2, minutes=30)), b"a", None))
    database = sqlite3.connect(folder / "mail.db")
    database.executemany(ROW, rows)
    database.commit()
    database.close()


def test_every_example_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    module = next(block.text for block in blocks_of(PAGE) if block.language == "python")
    (tmp_path / "mailer.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delitem(sys.modules, "mailer", raising=False)
    for command, wanted in examples():
        program, *arguments = command.split()
        assert program == "faststream-sql"
        if arguments[0] == "queues":
            fill(tmp_path)
        capfd.readouterr()
        status = main(arguments)
        printed, aside = capfd.readouterr()
        assert [line.rstrip() for line in printed.rstrip().splitlines()] == wanted, command
        assert status == (1 if wanted[0].startswith(("error", "changed")) else 0), aside
        if arguments[0] == "ddl":
            migrate(tmp_path, printed)
    monkeypatch.delitem(sys.modules, "mailer")


def test_every_command_has_an_example() -> None:
    shown = {" ".join(word for word in command.split()[1:3] if ":" not in word) for command, _ in examples()}
    assert shown == {"ddl", "check", "prepare", "queues", "dead list", "dead show", "dead requeue", "dead purge"}
