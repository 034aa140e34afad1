"""What import-linter cannot say: which file knows FastStream's private modules, and what an import brings along."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "faststream_sql"


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_one_file_knows_the_private_modules_of_faststream() -> None:
    private = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for name in imported(path)
        if name.startswith("faststream.") and any(part.startswith("_") for part in name.split("."))
    }
    assert private <= {"broker/_faststream.py"}


def test_the_engine_runs_without_faststream() -> None:
    script = "import sys, faststream_sql.engine; print(sorted(name for name in sys.modules if name.partition('.')[0] == 'faststream'))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr


def test_importing_the_package_brings_no_driver_along() -> None:
    drivers = {"asyncpg", "asyncmy", "aiosqlite", "sqlalchemy"}
    script = f"import sys, faststream_sql; print(sorted({drivers} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr
