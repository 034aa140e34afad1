"""The command line: `faststream-sql --help`, or `python -m faststream_sql.cli --help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

LIBRARIES = ("rich", "typer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, with the process' own arguments unless others are given. Returns its exit status.

    0: done, and nothing found. 1: something was found, or could not be done. 2: the command cannot be understood.
    """
    try:
        from faststream_sql.cli.commands import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        print(f"faststream-sql needs the library {error.name!r}: pip install 'faststream-sql[cli]'", file=sys.stderr)
        return 2
    return run(sys.argv[1:] if arguments is None else list(arguments))
