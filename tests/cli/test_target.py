"""Which broker a command is about, what is refused, and that no credential is printed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faststream_sql.cli import main
from tests.cli.conftest import EMAILS, Result, Service

Cli = Callable[..., Result]
MakeService = Callable[..., Service]
ROOT = Path(__file__).parent.parent.parent

APPS = """
from faststream import FastStream
from faststream.asgi import AsgiFastStream
other = SQLBroker("sqlite:///other.db", logger=None)
app = FastStream(broker)
asgi = AsgiFastStream(broker)
both = FastStream(broker, other)
empty = FastStream()
number = 7
def make(): return FastStream(broker)
def broken(): raise ValueError("mysql://ann:canary@db/app is wrong")
class holder: inner = broker
"""


@pytest.mark.parametrize("path", ["broker", "app", "asgi", "holder.inner"])
def test_a_broker_and_applications_with_one(path: str, cli: Cli, make_service: MakeService) -> None:
    service = make_service(EMAILS + APPS)
    service.create_tables()
    assert cli("check", f"{service.name}:{path}").out.startswith("sqlite:///service.db: 1 subscription")
    assert cli("check", f"{service.name}:make", "--factory").status == 0


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nothing", "has no 'nothing'; there are 'broker', 'other', 'app', 'asgi', 'both', 'empty'"),
        ("number", "is of the type int, and neither a SQLBroker nor an application with one"),
        ("make", "add --factory if it makes one"),
        ("both", "has 2 SQL brokers (sqlite:///service.db, sqlite:///other.db): name the broker itself"),
        ("empty", "has no SQLBroker"),
    ],
)
def test_what_is_no_broker(path: str, says: str, cli: Cli, make_service: MakeService) -> None:
    service = make_service(APPS)
    done = cli("check", f"{service.name}:{path}")
    assert (done.status, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere", "'nowhere' names no broker: write module:broker, or module:app"),
        (":app", "names no broker"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("json.nowhere:app", "there is no module 'json.nowhere'"),
        ("json:app", "module 'json' has no 'app'\n"),
    ],
)
def test_what_is_no_module(target: str, says: str, cli: Cli) -> None:
    done = cli("check", target)
    assert (done.status, done.out) == (2, "")
    assert says in done.err


def test_a_module_that_fails_says_where_and_no_credential(cli: Cli, make_service: MakeService, tmp_path: Path) -> None:
    service = make_service("def read():\n    raise ValueError('no such host in postgresql://ann:canary@db/app?x=1')\nread()")
    done = cli("check", service.target)
    assert done.status == 2
    assert "ValueError: no such host in postgresql://***" in done.err
    assert f"{tmp_path / service.name}.py:5 in read" in done.err
    assert "canary" not in done.err
    done = cli("check", f"{make_service(APPS).name}:broken", "--factory")
    assert done.status == 2
    assert "mysql://***" in done.err
    assert "canary" not in done.err
    missing = make_service("import no_such_library")
    assert "No module named 'no_such_library'" in cli("check", missing.target).err


def test_a_module_in_another_folder(cli: Cli, make_service: MakeService, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    source = f"from faststream_sql import SQLBroker\nbroker = SQLBroker('sqlite:///service.db', logger=None)\n{EMAILS}"
    (tmp_path / "code" / "elsewhere_of_its_own.py").write_text(source)
    assert cli("check", "elsewhere_of_its_own:broker").status == 2
    assert cli("check", "elsewhere_of_its_own:broker", "--app-dir", "code").out.startswith("error: subscription 'emails'")


SECRETS = [
    "postgresql://canaryuser:canarypassword@127.0.0.1:1/app",
    "postgresql://canaryuser:canary%40pass%2Fword@127.0.0.1:1/app?password=canaryoption",
    "postgresql://canaryuser:canary@pass@127.0.0.1:1/app",
    "postgresql://canaryuser:canary#pass/word@127.0.0.1:1/app",
    "oracle://canaryuser:canarypassword@db/app",
    "sqlite:////canaryfolder/no/such/file.db",
    "canarypassword",
]


@pytest.mark.parametrize("url", SECRETS)
@pytest.mark.parametrize("command", [["check"], ["prepare"]], ids=" ".join)
def test_no_credential_is_printed(
    command: list[str], url: str, cli: Cli, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(EMAILS)
    by_option = cli(*command, service.target, "--url", url)
    monkeypatch.setenv("DATABASE_URL", url)
    by_environment = cli(*command, service.target)
    for done in (by_option, by_environment):
        assert done.status in {1, 2}
        assert "canary" not in done.out + done.err


def test_a_database_that_cannot_be_reached(cli: Cli, make_service: MakeService) -> None:
    done = cli("check", make_service(EMAILS).target, "--url", "postgresql://127.0.0.1:1/app")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: postgresql://127.0.0.1:1/app: UnavailableError: ")


def test_a_name_without_a_table(cli: Cli, make_service: MakeService) -> None:
    service = make_service(EMAILS, options='tables={"reports": QueueTable.default()}')
    done = cli("check", service.target)
    assert done.status == 1
    assert "'emails' leads into no table" in done.err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["check"], ["check", "a:b", "--nonsense"]])
def test_wrong_usage(arguments: list[str], cli: Cli) -> None:
    assert cli(*arguments).status == 2


def test_help_says_what_there_is(cli: Cli) -> None:
    done = cli("--help")
    assert done.status == 0
    assert "Exit status" in done.out


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_its_libraries_it_says_what_to_install(
    library: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("faststream_sql.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["check", "a:b"]) == 2
    assert "pip install 'faststream-sql[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("prometheus", "prometheus_client", "prometheus"), ("opentelemetry", "opentelemetry.sdk", "otel")],
)
def test_so_do_metrics_and_traces(module: str, library: str, extra: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import faststream_sql.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert f"ImportError: faststream_sql.{module} needs the library" in done.stderr
    assert f"pip install 'faststream-sql[{extra}]'" in done.stderr


def test_it_runs_as_a_module_and_as_a_program(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "faststream-sql"
    for command in ([sys.executable, "-m", "faststream_sql.cli"], [str(program)]):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        done = subprocess.run([*command, "check", "no:app"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "there is no module 'no'" in done.stderr
