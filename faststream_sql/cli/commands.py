"""The commands and their options. What each does is in a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from faststream_sql.cli.check import check_offline, check_online
from faststream_sql.cli.ddl import DialectName, print_ddl
from faststream_sql.cli.output import DONE, FOUND, USAGE, CommandError, say_aside
from faststream_sql.cli.prepare import check_prepared, write_prepared
from faststream_sql.cli.schema_file import DEFAULT_FILE
from faststream_sql.cli.target import URL_VARIABLE, clean_error, failure, load_broker
from faststream_sql.errors import SQLBrokerError

app = typer.Typer(
    name="faststream-sql",
    help="Queues in SQL tables: check them, make them, look into them.",
    epilog="Exit status: 0 done and nothing found, 1 something was found or failed, 2 the command cannot be understood.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Target = Annotated[
    str, typer.Argument(metavar="APP", help="module:broker, or module:app of an application with one SQLBroker", show_default=False)
]
Url = Annotated[
    str | None,
    typer.Option("--url", envvar=URL_VARIABLE, show_default=False, help="The database to work on; the broker's own unless given."),
]
Factory = Annotated[bool, typer.Option("--factory", help="APP is a function that makes it.")]
AppDir = Annotated[Path, typer.Option("--app-dir", help="Where APP's module is looked for.")]
File = Annotated[Path, typer.Option("--file", help="The file that holds the schema.")]
HERE = Path()


@app.command()
def check(
    target: Target,
    url: Url = None,
    offline: Annotated[bool, typer.Option("--offline", help="Check against the file of `prepare`, without a database.")] = False,
    file: File = DEFAULT_FILE,
    factory: Factory = False,
    app_dir: AppDir = HERE,
) -> None:
    """Check that the broker's tables can serve it: every statement is prepared, and all that is missing is named at once."""
    broker = load_broker(target, factory=factory, folder=app_dir)
    raise typer.Exit(check_offline(broker, file) if offline else check_online(broker, url))


@app.command()
def prepare(
    target: Target,
    url: Url = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail where the database has moved on from the file.")] = False,
    file: File = DEFAULT_FILE,
    factory: Factory = False,
    app_dir: AppDir = HERE,
) -> None:
    """Write the schema of the broker's tables to a file, for `check --offline`."""
    broker = load_broker(target, factory=factory, folder=app_dir)
    raise typer.Exit(check_prepared(broker, url, file) if check else write_prepared(broker, url, file))


@app.command()
def ddl(
    target: Target,
    dialect: Annotated[DialectName | None, typer.Option("--dialect", help="The database; the broker's own unless given.")] = None,
    factory: Factory = False,
    app_dir: AppDir = HERE,
) -> None:
    """Print the tables and indexes that the broker's names lead into, for a migration. No database is asked."""
    raise typer.Exit(print_ddl(load_broker(target, factory=factory, folder=app_dir), dialect))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status. Errors of the package come out as one line, and hold no credential."""
    try:
        app(args=list(arguments), prog_name="faststream-sql")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
    except CommandError as error:
        say_aside(f"error: {error}")
        return error.status
    except SQLBrokerError as error:  # a declaration that is refused before a database is asked
        say_aside(f"error: {clean_error(error)}")
        return FOUND
    except Exception as error:
        say_aside(f"error: {failure('the command', error)}")
        return FOUND
    return DONE
