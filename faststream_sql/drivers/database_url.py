"""Where a database is and how to log in, as a value that shows nothing of the credentials; and how its public part is spelled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NoReturn
from urllib.parse import quote

from faststream_sql.drivers.redaction import Redactor, Secret, percent_spellings

Backend = Literal["postgresql", "mysql", "mariadb", "sqlite"]

_PERCENT: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_UNSAFE: Final = re.compile(r"[^\w.~:-]")


@dataclass(frozen=True, slots=True, repr=False)
class DatabaseURL:
    """Where a database is and how to log in; `str` and `repr` show the public part alone. Made by `parse_url`, never pickled."""

    backend: Backend
    hosts: tuple[tuple[str, int | None], ...] = ()
    """Hosts in the order of preference, with their ports. A host that begins with `/` or `@` is a Unix socket (on Postgres, the
    folder that holds it). Empty means the driver's default, which on Postgres is the `PG*` environment."""
    user: Secret | None = None
    password: Secret | None = None
    database: str | None = None
    """The database's name. On SQLite the path of the file as given (relative paths stay so), or None for memory."""
    options: Mapping[str, str | Secret] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """The other query arguments by name, decoded. One whose name sounds like a credential is a `Secret`."""
    spelled: tuple[Secret, ...] = field(default=(), compare=False)
    """The secrets as they stood in the text, undecoded: for `secrets` alone."""

    def public_url(self) -> str:
        """The backend, hosts, ports and database name as a URL; of a file only its last name. Holds nothing else."""
        if self.backend == "sqlite":
            return f"sqlite:///{plain(last_name(self.database))}" if self.database else "sqlite://"
        path = f"/{plain(self.database)}" if self.database else ""
        return f"{self.backend}://{public_hosts(self.hosts)}{path}"

    def secrets(self) -> tuple[str, ...]:
        """Every text that must never be printed, longest first, decoded, percent-encoded and as it stood in the URL.

        These are the user name, the password, the secret options and the folder of an SQLite file.
        """
        texts = {self.user.reveal()} if self.user else set()
        texts |= {secret.reveal() for secret in self._hidden()} | self._folder()
        spelled = {form for text in texts for form in percent_spellings(text)} | {secret.reveal() for secret in self.spelled}
        return tuple(sorted(filter(None, spelled), key=lambda text: (-len(text), text)))

    def redactor(self) -> Redactor:
        """A redactor for the driver's errors. The user name is masked as a whole word, so that `app` leaves `app_jobs` readable."""
        names = set(percent_spellings(self.user.reveal())) if self.user else set()
        names |= {secret.reveal() for secret in self.spelled if self.user and percent_decoded(secret.reveal()) == self.user.reveal()}
        shared = {secret.reveal() for secret in self._hidden()}
        return Redactor((text for text in self.secrets() if text not in names or text in shared), names=names)

    def _hidden(self) -> tuple[Secret, ...]:
        """The password and the secret options."""
        found = [value for value in self.options.values() if isinstance(value, Secret)]
        return (*found, self.password) if self.password else tuple(found)

    def _folder(self) -> set[str]:
        """The folder of an SQLite file. A relative one keeps its slash: `data/` is no part of the word `database`."""
        if self.backend != "sqlite" or not self.database:
            return set()
        folder = self.database[: len(self.database) - len(last_name(self.database, keep_query=True))]
        absolute = folder.startswith("/") or folder[1:2] == ":"
        return {folder.rstrip("/\\") if absolute else folder} if folder.strip("./\\") else set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.public_url()!r})"

    def __str__(self) -> str:
        return self.public_url()

    def __copy__(self) -> DatabaseURL:
        return self

    def __deepcopy__(self, memo: object) -> DatabaseURL:
        return self

    def __reduce__(self) -> NoReturn:
        """Raises `TypeError`: a pickle would hold the credentials in the clear."""
        raise TypeError("a DatabaseURL is not pickled: it may hold credentials")


def percent_decoded(text: str) -> str:
    """The text without its percent-encoding. What is no valid sequence (`100%`) stands for itself."""
    return _PERCENT.sub(_decoded, text)


def _decoded(match: re.Match[str]) -> str:
    """The characters of a run of percent sequences, or the run itself where its bytes are not UTF-8."""
    try:
        return bytes.fromhex(match.group().replace("%", "")).decode()
    except UnicodeDecodeError:
        return match.group()


def plain(name: str) -> str:
    """A name for a public URL: letters and digits as they are, all else encoded, control characters too."""
    return _UNSAFE.sub(lambda match: quote(match.group(), safe="", errors="surrogatepass"), name)


def last_name(path: str, *, keep_query: bool = False) -> str:
    """The last name of a path, of either kind of slash. A `file:` URI has a query of its own, which is no part of the name."""
    name, query, rest = path.partition("?")
    name = re.split(r"[/\\]", name)[-1]
    return name + query + rest if keep_query else name


def public_hosts(hosts: Iterable[tuple[str, int | None]]) -> str:
    """Hosts as a URL has them."""
    return ",".join(_public_host(name, port) for name, port in hosts)


def _public_host(name: str, port: int | None) -> str:
    """A host as a URL has it. A socket is on this machine; its folder may be somebody's home and is not shown."""
    shown = "localhost" if name.startswith(("/", "@")) else plain(name)
    shown = f"[{shown}]" if ":" in shown else shown
    return shown if port is None else f"{shown}:{port}"
