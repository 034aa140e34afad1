"""A MariaDB that makes everything hard for a client that relies on defaults."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncmy
import pytest

from tests.servers import PrivateMariaDB, ServerUnavailableError, skip_without

UNFRIENDLY = [
    "--character-set-server=latin1",
    "--skip-character-set-client-handshake",
    "--sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES",
    "--default-time-zone=-05:00",
    "--autocommit=0",
    "--transaction-isolation=REPEATABLE-READ",
    "--auto-increment-increment=3",
    "--auto-increment-offset=2",
    "--log-bin",
    "--binlog-format=ROW",
    "--plugin-load-add=auth_ed25519",
]


@dataclass
class Unfriendly:
    """The server, and the folder of its certificates: `ca.pem` signed `server.pem` for `localhost` alone; `other.pem` signed nothing."""

    server: PrivateMariaDB
    certificates: Path

    def url(self, login: str = "root", host: str = "127.0.0.1", query: str = "") -> str:
        return f"mysql://{login}@{host}:{self.server.port}/test{query}"

    async def run(self, *statements: str) -> None:
        """As the administrator, each committed."""
        connection = await asyncmy.connect(host="127.0.0.1", port=self.server.port, user="root", autocommit=True)
        async with connection.cursor() as cursor:
            for statement in statements:
                await cursor.execute(statement)
        await connection.ensure_closed()


@pytest.fixture(scope="session")
def unfriendly() -> Iterator[Unfriendly]:
    folder = Path(tempfile.mkdtemp(prefix="faststream_sql-"))
    folder.chmod(0o755)  # the server runs as another user
    try:
        _make_certificates(folder)
        files = [f"--ssl-{name}={folder / file}" for name, file in (("ca", "ca.pem"), ("cert", "server.pem"), ("key", "server.key"))]
        with PrivateMariaDB([*UNFRIENDLY, *files]) as server:
            yield Unfriendly(server, folder)
    except ServerUnavailableError as error:
        skip_without(error)
    finally:
        shutil.rmtree(folder)


def _make_certificates(folder: Path) -> None:
    def openssl(*arguments: str) -> None:
        try:
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
        except FileNotFoundError:
            raise ServerUnavailableError("no openssl here, which makes the certificates: install it") from None

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other"):
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        openssl("req", "-x509", *new, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "30", "-subj", f"/CN={name}", *usage)
    openssl("req", *new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "extensions").write_text("subjectAltName=DNS:localhost\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", "-days", "30", *signing)
    for file in folder.iterdir():
        file.chmod(0o644)
