"""The failure tables of `docs/forms/`: each line names the tests that show it, or says that it is reasoned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

TESTS = set(re.findall(r"^(?:async )?def (test_\w+)", "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py")), re.MULTILINE))
FORMS = [page for page in PAGES if page.parent.name == "forms"]


def lines_of(text: str) -> list[list[str]]:
    """The cells of the table whose last column is `shown by`, without its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    start = next(n for n, cells in enumerate(rows) if cells[-1] == "shown by")
    return rows[start + 2 :]


@pytest.mark.parametrize("page", FORMS, ids=lambda page: page.stem)
def test_each_line_names_tests_that_exist_or_says_that_it_is_reasoned(page: Path) -> None:
    lines = lines_of(page.read_text())
    assert len(lines) > 10
    for cells in lines:
        assert len(cells) == 4, cells
        named = set(re.findall(r"`(test_\w+)`", cells[-1]))
        assert named <= TESTS, cells
        assert named or cells[-1].startswith("reasoned"), cells
