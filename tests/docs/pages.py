"""The blocks of the README and the docs. What runs a block is its language and its title."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r'^```(?P<language>\S*)(?: title="(?P<title>[^"]*)")?(?P<rest>[^\n]*)\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block."""

    page: str
    language: str
    title: str
    rest: str
    """What else stands behind the language: nothing, on a block that is well formed."""
    text: str


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    name = str(page.relative_to(ROOT))
    return [
        Block(name, found["language"], found["title"] or "", found["rest"].strip(), found["text"])
        for found in FENCE.finditer(page.read_text())
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of(language: str, *titles: str) -> list[Block]:
    """The blocks of a language, with one of the titles where titles are given."""
    return [block for block in BLOCKS if block.language == language and (not titles or block.title in titles)]
