"""The tutorial, followed step by step in an empty folder. Its packages are those of the environment that the tests run in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks_of

DONE_ALREADY = re.compile(r"^(mkdir|cd|python3 -m venv|\. |pip install) ?")


def commands_of(block: Block) -> list[str]:
    lines = [line.removeprefix("$ ") for line in block.text.splitlines()]
    return [line for line in lines if not DONE_ALREADY.match(line)]


def test_it_works_word_for_word(tmp_path: Path) -> None:
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    printed, ran = "", list[str]()
    for block in blocks_of(ROOT / "docs" / "tutorial.md"):
        if block.language == "python":
            with (tmp_path / block.title).open("a") as file:
                file.write(block.text + "\n\n")
        elif block.language == "console":
            for command in commands_of(block):
                done = subprocess.run(
                    command,
                    shell=True,
                    cwd=tmp_path,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=50,
                    check=False,
                )
                assert done.returncode == 0, done.stdout
                printed = done.stdout
                ran.append(command)
        elif block.title == "output":
            missing = [line for line in block.text.splitlines() if line not in printed]
            assert not missing, printed
    assert ran == ["faststream run mailer:app", "pytest -q"]
    assert {path.name for path in tmp_path.glob("*.py")} == {"mailer.py", "test_mailer.py"}
