"""Database URLs: parsed once, by our own code, into a value that shows nothing of the credentials.

Nobody else sees the raw text: the URL parsers of drivers and of the standard library repeat parts of a password in their errors.

Where the user name and password end. Passwords are often pasted in without escaping, so `@ / ? # :` may stand in them. What
follows the right `@` must read as `host[:port][,host[:port]...][/database][?name=value[&name=value...]]`, with no `@`, `/`, `?`, `;` or
`#` in the database's name. In nearly every text one `@` alone satisfies that. A second one can only stand in a query value, as in
`?application_name=x@y`: the first is then taken if all the options after it have known names, and otherwise the text is refused,
since a guess could show half of a password as the name of a host.

Percent-encoding is decoded; what is no valid sequence (`100%`) stands for itself, and so does `+`, as in libpq.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from faststream_sql.drivers.database_url import Backend, DatabaseURL, last_name, percent_decoded, plain, public_hosts
from faststream_sql.drivers.redaction import Secret
from faststream_sql.errors import DeclarationError

__all__ = ["LIBPQ_OPTIONS", "Backend", "DatabaseURL", "Secret", "parse_url", "redact_url"]

_BACKENDS: Final[Mapping[str, Backend]] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mariadb",
    "sqlite": "sqlite",
}
_DRIVERS: Final[Mapping[Backend, str]] = {"postgresql": "asyncpg", "mysql": "asyncmy", "mariadb": "asyncmy", "sqlite": "aiosqlite"}

# The parameters of libpq 17. A keyword text may hold no other, as with libpq itself.
LIBPQ_OPTIONS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        application_name channel_binding client_encoding connect_timeout database dbname fallback_application_name gssdelegation
        gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts
        max_protocol_version min_protocol_version options passfile password port replication require_auth requirepeer requiressl
        scram_client_key scram_server_key service servicefile ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode
        sslcompression sslcrl sslcrldir sslkey sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni
        target_session_attrs tcp_user_timeout user
        """,
    )
)
# Names that settle which `@` ends the credentials, where an option's value holds another one.
_KNOWN_OPTIONS: Final = LIBPQ_OPTIONS | frozenset(
    re.findall(
        r"\w+",
        """
        auth_plugin autocommit cache charset db direct_tls init_command mode passwd program_name search_path ssl ssl_ca ssl_cert
        ssl_key statement_timeout timeout timezone unix_socket uri username
        """,
    )
)
_SECRET_NAME: Final = re.compile(r"pass|pwd|secret|token|key|auth|credential|sslcert|ssl_cert", re.IGNORECASE)
_PLAIN_NAMES: Final = frozenset({"foreign_keys", "require_auth", "auth_plugin", "default_auth", "sslcertmode"})

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)(?:\+([A-Za-z0-9_.-]+))?://", re.ASCII)
_HOST_PATTERN: Final = r"(?:\[[\w:.%]+\]|[\w.%~-]+)(?::[0-9]{1,5})?"
_HOSTS_PATTERN: Final = rf"(?P<hosts>{_HOST_PATTERN}(?:,{_HOST_PATTERN})*)?"
_DATABASE_TAIL: Final = re.compile(rf"{_HOSTS_PATTERN}(?:/(?P<path>[^/?#@;]*))?(?:\?(?P<query>.*))?", re.DOTALL)
_ANY_TAIL: Final = re.compile(rf"{_HOSTS_PATTERN}(?:/(?P<path>[\w./~%+:-]*))?(?:\?(?P<query>.*))?", re.DOTALL)
_LIKE_A_PORT: Final = re.compile(r"[^/?#:]*:[^/?#]*(?:/[^/?#@]*)?(?:\?.*)?", re.DOTALL)
_OPTION: Final = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL | re.ASCII)
_KEYWORD_START: Final = re.compile(r"\w+\s*=")
_KEYWORD: Final = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*)|)(?=\s|\Z)", re.DOTALL)

_NUL: Final = "the database URL holds a NUL character, plain or as %00: remove it"
_WAY_OUT: Final = (
    "percent-encode the special characters of the user name, the password and the options (@ is %40, / is %2F, ? is %3F, # is %23)"
)


def parse_url(text: str) -> DatabaseURL:
    """Reads a database URL, or a libpq keyword text (`host=db user=app`). Does no I/O and reads no environment.

    Raises `DeclarationError` for an unknown scheme or driver, a bad port, a text that cannot be read, or one that can be read in
    two ways. The message repeats the scheme and the driver's name, and no other part of the text.
    """
    try:
        return _parse(text.strip())
    except _RefusedError as refused:
        reason = str(refused)
    # Raised outside the handler, and without the text among the locals: the error's context and frames hold nothing of it.
    del text
    raise DeclarationError(reason)


def redact_url(text: str) -> str:
    """Any URL reduced to its scheme, hosts, ports and path, for a document that others read. Raises nothing.

    A path without a host is a file, of which the last name is kept. What cannot be read for certain is left out: the answer is
    then the scheme alone, or an empty text.
    """
    text = text.strip()
    try:
        return _parse(text).public_url()
    except _RefusedError:
        pass  # not a database URL that we take: it may still be a URL
    scheme = _SCHEME.match(text)
    prefix = scheme.group() if scheme else ""
    rest = text[len(prefix) :]
    if "@" not in rest:
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    try:
        tail = _split_credentials(rest, _ANY_TAIL)[1]
        hosts, path = _authority_hosts(tail["hosts"]), _decode(tail["path"] or "")
    except _RefusedError:
        return prefix
    if not hosts or prefix.lower().startswith(("sqlite", "file")):
        hosts, path = (), last_name(path)  # with too few slashes, a file's first folder reads as a host
    public = "/".join(plain(name) for name in path.split("/"))
    return f"{prefix}{public_hosts(hosts)}" + (f"/{public}" if public else "")


class _RefusedError(Exception):
    """Why a text is not taken, in words that hold nothing of it but the scheme. Never leaves this module."""


class _Argument(NamedTuple):
    """One option: its name, its value, and the value as it stood in the text."""

    name: str
    value: str
    raw: str


def _parse(text: str) -> DatabaseURL:
    if not text:
        raise _RefusedError("the database URL is empty: write for example sqlite:///queue.db or postgresql://app:secret@db:5432/app")
    if "\0" in text:
        raise _RefusedError(_NUL)
    scheme = _SCHEME.match(text)
    if scheme:
        backend = _backend(scheme[1].lower(), scheme[2])
        rest = text[scheme.end() :]
        return _parse_file(rest) if backend == "sqlite" else _parse_server(backend, rest)
    if _KEYWORD_START.match(text):
        return _assemble("postgresql", _keyword_arguments(text))
    raise _RefusedError("the database URL has no scheme: it begins with postgresql://, mysql://, mariadb:// or sqlite:///")


def _backend(scheme: str, driver: str | None) -> Backend:
    backend = _BACKENDS.get(scheme)
    if backend is None:
        raise _RefusedError(f"unknown database scheme {scheme[:40]!r}: use postgresql://, mysql://, mariadb:// or sqlite:///")
    ours = _DRIVERS[backend]
    if driver is not None and driver.lower() != ours:
        slash = "/" if backend == "sqlite" else ""
        raise _RefusedError(f"driver {driver[:40]!r} is not supported for {backend}: use {backend}://{slash} or {backend}+{ours}://{slash}")
    return backend


def _parse_server(backend: Backend, rest: str) -> DatabaseURL:
    credentials, tail = _split_credentials(rest, _DATABASE_TAIL)
    user, _, password = credentials.partition(":")
    written = [_Argument("user", _decode(user), user), _Argument("password", _decode(password), password)]
    database = tail["path"] or ""
    written.append(_Argument("database", _decode(database), database))
    return _assemble(backend, [*written, *(_arguments(tail["query"]) or ())], _authority_hosts(tail["hosts"]))


def _parse_file(rest: str) -> DatabaseURL:
    path, _, query = rest.partition("?")
    if path and not path.startswith("/"):
        raise _RefusedError("an SQLite URL has three slashes before a relative path and four before an absolute one: sqlite:///queue.db")
    arguments = _arguments(query)
    if arguments is None:
        raise _RefusedError("the options of an SQLite URL are not name=value pairs; a '?' in the file's name is written %3F")
    database = _decode(path[1:])
    if database in ("", ":memory:"):
        return _assemble("sqlite", arguments)
    if not last_name(database):
        raise _RefusedError("an SQLite URL names a folder, not a file")
    return _assemble("sqlite", arguments, path=database)


def _split_credentials(rest: str, grammar: re.Pattern[str]) -> tuple[str, re.Match[str]]:
    """The user name and password, and the match of what follows them. See the top of the file for the rule."""
    found: list[tuple[str, re.Match[str]]] = []
    ends = [-1, *(place.start() for place in re.finditer("@", rest))]
    for end in ends:
        credentials, tail = rest[: max(end, 0)], grammar.fullmatch(rest, end + 1)
        # Only a password may hold these unescaped: in a user name they would turn a path such as /@name into credentials.
        if tail and _fits(tail) and not re.search("[/?#]", credentials.partition(":")[0]):
            found.append((credentials, tail))
    if not found:
        raise _RefusedError(_what_is_wrong(rest[ends[-1] + 1 :]))
    if len(found) > 1 and any(argument.name not in _KNOWN_OPTIONS for argument in _arguments(found[0][1]["query"]) or ()):
        raise _RefusedError(f"the database URL can be read in two ways, since an '@' stands after a '?': {_WAY_OUT}")
    return found[0]


def _fits(tail: re.Match[str]) -> bool:
    """Whether the ports are in range and the query is made of pairs: what the pattern alone does not say."""
    ports = re.findall(r":([0-9]+)(?=,|\Z)", tail["hosts"] or "")
    return all(_is_port(port) for port in ports) and _arguments(tail["query"]) is not None


def _what_is_wrong(tail: str) -> str:
    """The likeliest reason, without a word of the text: where it cannot be read, any part may belong to the password."""
    if _LIKE_A_PORT.fullmatch(tail):
        return f"a port of the database URL is not a number from 1 to 65535; if it is part of a password, {_WAY_OUT}"
    return f"the database URL is not scheme://user:password@host:port/database?name=value: {_WAY_OUT}"


def _arguments(query: str | None) -> list[_Argument] | None:
    """The pairs of a query, or None where it is not made of pairs."""
    matches = [_OPTION.fullmatch(piece) for piece in (query or "").split("&") if piece]
    pairs = [_Argument(match[1], _decode(match[2]), match[2]) for match in matches if match]
    return pairs if len(pairs) == len(matches) else None


def _keyword_arguments(text: str) -> list[_Argument]:
    found: list[_Argument] = []
    position = 0
    while position < len(text):
        match = _KEYWORD.match(text, position)
        if match is None:
            raise _RefusedError("the keyword text is not name=value pairs; a value that holds spaces stands in single quotes")
        if match[1] not in LIBPQ_OPTIONS:
            raise _RefusedError("the keyword text holds a name that libpq does not know; a value that holds spaces stands in single quotes")
        raw = match[2] or match[3] or ""
        found.append(_Argument(match[1], re.sub(r"\\(.)", r"\1", raw, flags=re.DOTALL), raw))
        position = match.end()
    return found


def _assemble(
    backend: Backend, arguments: Sequence[_Argument], hosts: tuple[tuple[str, int | None], ...] = (), *, path: str | None = None
) -> DatabaseURL:
    """The value from its parts. What is written both in the URL's head and in its query must be the same in both."""
    given = [argument for argument in arguments if argument.value]
    user = _one(given, "user name", "user", "username")
    password = _one(given, "password", "password", "passwd")
    fields = {"user", "username", "password", "passwd"}
    if backend != "sqlite":
        path = _one(given, "database", "database", "dbname", "db")
        hosts = _all_hosts(hosts, given)
        fields |= {"database", "dbname", "db", "host", "port", "unix_socket"}
        if "://" in (path or ""):
            raise _RefusedError("the database's name is itself a URL: give that URL alone")
    hidden = [argument for argument in given if argument.name in {"user", "username"} or _is_secret(argument.name)]
    return DatabaseURL(
        backend=backend,
        hosts=hosts,
        user=Secret(user) if user else None,
        password=Secret(password) if password else None,
        database=path,
        options=_options(argument for argument in arguments if argument.name not in fields),
        spelled=tuple(Secret(argument.raw) for argument in hidden),
    )


def _one(given: Iterable[_Argument], what: str, *names: str) -> str | None:
    values = {argument.value for argument in given if argument.name in names}
    if len(values) > 1:
        raise _RefusedError(f"the database URL gives two different values for the {what}: keep one")
    return values.pop() if values else None


def _options(arguments: Iterable[_Argument]) -> Mapping[str, str | Secret]:
    options: dict[str, str | Secret] = {}
    for name, value, _ in arguments:
        if name in options:
            raise _RefusedError("the database URL gives an option twice: keep one")
        options[name] = Secret(value) if _is_secret(name) else value
    return MappingProxyType(options)


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and name.lower() not in _PLAIN_NAMES


def _authority_hosts(hosts: str | None) -> tuple[tuple[str, int | None], ...]:
    """The hosts of a URL's head. They are split before they are decoded: an encoded comma belongs to its host."""
    found = tuple((_decode(name), port) for name, port in map(_host, hosts.split(","))) if hosts else ()
    if any("@" in name and not name.startswith(("/", "@")) for name, _ in found):
        raise _RefusedError(f"the '@' before the host is percent-encoded and must not be; elsewhere, {_WAY_OUT}")
    return found


def _all_hosts(written: tuple[tuple[str, int | None], ...], given: Iterable[_Argument]) -> tuple[tuple[str, int | None], ...]:
    """The hosts of the URL's head or of its `host`, `unix_socket` and `port` options."""
    names = [argument.value for argument in given if argument.name in ("host", "unix_socket")]
    found = tuple(_host(name) for value in names for name in value.split(","))
    if written and found and written != found:
        raise _RefusedError("the database URL names hosts both before and after the '?': keep one")
    ports = [port for argument in given if argument.name == "port" for port in argument.value.split(",")]
    return _with_ports(written or found, ports)


def _with_ports(hosts: tuple[tuple[str, int | None], ...], ports: list[str]) -> tuple[tuple[str, int | None], ...]:
    """The hosts with the ports of the `port` option: one for all of them, or one for each."""
    if not ports:
        return hosts
    if not all(_is_port(port) for port in ports):
        raise _RefusedError("the option 'port' is not a number from 1 to 65535")
    hosts = hosts or (("localhost", None),)  # a port without a host can only mean this machine
    ports = ports * len(hosts) if len(ports) == 1 else ports
    if len(ports) != len(hosts) or any(port is not None for _, port in hosts):
        raise _RefusedError("the option 'port' does not fit the hosts: give one port for all, or one for each, and only there")
    return tuple((name, int(port)) for (name, _), port in zip(hosts, ports, strict=True))


def _host(text: str) -> tuple[str, int | None]:
    """One host with its port. A bare IPv6 address and the path of a socket have none."""
    if text.startswith(("/", "@")) or (text.count(":") > 1 and not text.startswith("[")):
        return text, None
    match = re.fullmatch(r"(\[[^\[\]]+\]|[^\[\]:]+)(?::([0-9]+))?", text)
    if match is None or (match[2] and not _is_port(match[2])):
        raise _RefusedError("a host of the database URL is not host or host:port, with a port from 1 to 65535")
    return match[1].strip("[]"), int(match[2]) if match[2] else None


def _is_port(text: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", text) is not None and 1 <= int(text) <= 65535


def _decode(text: str) -> str:
    decoded = percent_decoded(text)
    if "\0" in decoded:  # no server takes one, and a C library would end the text there
        raise _RefusedError(_NUL)
    return decoded
