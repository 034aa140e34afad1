"""The commands and their options. What each does is in a file of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from faststream_sql.cli.check import check_offline, check_online
from faststream_sql.cli.ddl import DialectName, print_ddl
from faststream_sql.cli.dead import print_list, print_row, purge, requeue
from faststream_sql.cli.output import DONE, FOUND, USAGE, CommandError, say_aside
from faststream_sql.cli.prepare import check_prepared, write_prepared
from faststream_sql.cli.queues import print_queues
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

dead_app = typer.Typer(name="dead", help="Dead letters: list them, look at one, send them again, delete them.", no_args_is_help=True)
app.add_typer(dead_app)

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
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Queue = Annotated[str, typer.Argument(help="The queue that gave them up, or the dead letters' own group or table.", show_default=False)]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="How many at most; all that there are unless given.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; say how many rows it would be.")]
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


@app.command()
def queues(target: Target, url: Url = None, as_json: Json = False, factory: Factory = False, app_dir: AppDir = HERE) -> None:
    """Count the rows of every queue: due, delayed, in work, the oldest one's age, dead letters."""
    raise typer.Exit(print_queues(load_broker(target, factory=factory, folder=app_dir), url, as_json=as_json))


@dead_app.command("list")
def dead_list(
    target: Target,
    queue: Annotated[str | None, typer.Argument(help="The queue that gave them up; each one unless given.", show_default=False)] = None,
    url: Url = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many of each queue.")] = 50,
    as_json: Json = False,
    factory: Factory = False,
    app_dir: AppDir = HERE,
) -> None:
    """List dead letters, in claim order."""
    raise typer.Exit(print_list(load_broker(target, factory=factory, folder=app_dir), url, queue, limit=limit, as_json=as_json))


@dead_app.command("show")
def dead_show(
    target: Target,
    queue: Queue,
    row_id: Annotated[str, typer.Argument(metavar="ID", help="The row's id.", show_default=False)],
    url: Url = None,
    factory: Factory = False,
    app_dir: AppDir = HERE,
) -> None:
    """Show one dead letter with all its columns."""
    raise typer.Exit(print_row(load_broker(target, factory=factory, folder=app_dir), url, queue, row_id))


@dead_app.command("requeue")
def dead_requeue(
    target: Target,
    queue: Queue,
    url: Url = None,
    to: Annotated[str | None, typer.Option("--to", help="The queue for all, where several share a dead letter group.")] = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    factory: Factory = False,
    app_dir: AppDir = HERE,
) -> None:
    """Send dead letters back to their queue, with a first attempt. Rows in work are left alone."""
    broker = load_broker(target, factory=factory, folder=app_dir)
    raise typer.Exit(requeue(broker, url, queue, to=to, limit=limit, dry_run=dry_run))


@dead_app.command("purge")
def dead_purge(
    target: Target,
    queue: Queue,
    url: Url = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    factory: Factory = False,
    app_dir: AppDir = HERE,
) -> None:
    """Delete dead letters for good. Rows in work are left alone."""
    broker = load_broker(target, factory=factory, folder=app_dir)
    if not dry_run and not yes:
        if not sys.stdin.isatty():
            msg = "purge deletes rows for good: add --yes, or look first with --dry-run"
            raise CommandError(msg)
        typer.confirm(f"Delete the dead letters of {queue!r} for good?", abort=True)
    raise typer.Exit(purge(broker, url, queue, limit=limit, dry_run=dry_run))


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
