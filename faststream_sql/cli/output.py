"""What commands print: results to the standard output, everything else beside it. Plain text where nobody watches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

DONE: Final = 0
FOUND: Final = 1
"""Something was found, or could not be done."""
USAGE: Final = 2
"""The command cannot be understood: a name, an option, a file."""

_WIDE: Final = 10_000


class CommandError(Exception):
    """Ends a command with a message and an exit status."""

    def __init__(self, text: str, status: int = USAGE) -> None:
        super().__init__(text)
        self.status = status


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:  # a pipe or a file has no width: nothing is cut or folded
        console.width = _WIDE
    return console


def say(text: str) -> None:
    """One line (or a text of several) to the standard output."""
    _console().print(text, soft_wrap=True)


def say_aside(text: str) -> None:
    """The same beside it."""
    _console(stderr=True).print(text, soft_wrap=True)


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Rows under their headings; those of `right` are numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    _console().print(table)


def say_json(value: Any) -> None:
    """A value for other programs."""
    say(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def progress() -> Progress:
    """A bar that is seen on a terminal and leaves nothing behind."""
    console = _console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def age(seconds: float | None) -> str:
    """A span in its largest unit, rounded down; `-` for none."""
    if seconds is None:
        return "-"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
