"""What asyncmy is called with for a URL, and what a new session is told."""

from __future__ import annotations

import math
import ssl
from typing import Any

from asyncmy.constants.CLIENT import FOUND_ROWS
from asyncmy.errors import OperationalError

from faststream_sql.drivers.url import DatabaseURL, Secret
from faststream_sql.errors import DeclarationError

CONNECT_SECONDS = 10.0

SQL_MODE = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
"""A value that does not fit is an error: without the strict mode it would be cut in silence."""

SILENT_SECONDS = 60
"""How long a session may be silent before the server ends it, and frees what it held: a lost host says nothing more."""

SESSION = f"""SET NAMES utf8mb4;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00', innodb_lock_wait_timeout = 5, lock_wait_timeout = 10,
wait_timeout = {SILENT_SECONDS}"""
"""For sessions of the broker's own, whatever the server's defaults: some servers do not even heed the character set that a client asks for.
A cancelled statement goes on in the server: its waits for locks must end soon (in seconds).
"""

SWITCHED_ON = frozenset({"1", "true", "yes", "on"})
SWITCHED_OFF = frozenset({"0", "false", "no", "off"})


class _Refused:
    """A way to log in that shows the server, and whoever stands between, the password itself."""

    def __init__(self, connection: object) -> None: ...

    def authenticate(self, packet: object) -> None:
        msg = "the server asks for the password in the clear, and the connection has no TLS: set ssl_mode"
        raise OperationalError(2059, msg)


_IN_THE_CLEAR = ("mysql_clear_password", "dialog")


def connect_timeout(url: DatabaseURL) -> float:
    """How long a connect may take, in seconds. Raises DeclarationError for what is no time."""
    text = _text(url, "connect_timeout")
    try:
        seconds = float(text) if text else CONNECT_SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86400:
        msg = f"{url.public_url()}: connect_timeout={text} cannot be: give seconds, more than 0 and at most 86400"
        raise DeclarationError(msg)
    return seconds


def connect_arguments(url: DatabaseURL, tls: ssl.SSLContext | None, address: dict[str, Any]) -> dict[str, Any]:
    """What asyncmy is called with. It never sees the URL. Raises DeclarationError for an option that is not known, or that cannot be."""
    check_options(url)
    arguments: dict[str, Any] = {
        **address,
        "user": url.user.reveal() if url.user else None,
        # as bytes: the library would write a text in Latin-1
        "password": url.password.reveal().encode("utf-8", "surrogateescape") if url.password else b"",
        "database": url.database,
        "charset": "utf8mb4",
        "autocommit": True,
        "client_flag": FOUND_ROWS,
        "connect_timeout": connect_timeout(url),
        "program_name": "faststream_sql",
    }
    if "unix_socket" in address:
        return arguments
    return {**arguments, **({"auth_plugin_map": dict.fromkeys(_IN_THE_CLEAR, _Refused)} if tls is None else {"ssl": tls})}


def check_options(url: DatabaseURL) -> None:
    """Raises DeclarationError for an option of the URL that is not known, or that cannot be."""
    unknown = sorted(set(url.options) - _OPTIONS)
    if unknown:
        msg = f"{url.public_url()}: option {unknown[0]!r} is not known. Known are {', '.join(sorted(_OPTIONS))}"
        raise DeclarationError(msg)
    charset = _text(url, "charset") or "utf8mb4"
    if charset.lower() != "utf8mb4":
        msg = f"{url.public_url()}: charset={charset} cannot be: the broker speaks utf8mb4, in which every text can be written"
        raise DeclarationError(msg)
    connect_timeout(url)


def addresses(url: DatabaseURL) -> list[dict[str, Any]]:
    """Where to connect, in the order of preference: hosts with ports, or Unix sockets (`@` begins the name of one that is no file)."""
    found: list[dict[str, Any]] = []
    for host, port in url.hosts or (("localhost", None),):
        if host.startswith(("/", "@")):
            found.append({"unix_socket": host if host.startswith("/") else f"\0{host[1:]}"})
        else:
            found.append({"host": host, "port": port or 3306})
    return found


_MODES = ("ssl_mode", "ssl-mode", "sslmode")
_OPTIONS = frozenset({"connect_timeout", "charset", "ssl", "ssl_ca", "ssl_cert", "ssl_key", *_MODES})


def _text(url: DatabaseURL, name: str) -> str | None:
    value = url.options.get(name)
    return value.reveal() if isinstance(value, Secret) else value


def tls_context(url: DatabaseURL) -> ssl.SSLContext | None:
    """TLS as MySQL's own clients mean `ssl_mode`; `ssl=true` verifies the certificate and the host's name.

    Raises DeclarationError for a mode that cannot be, or files that cannot be read.
    """
    mode = next((text for name in _MODES if (text := _text(url, name))), None)
    switch = (_text(url, "ssl") or "").lower()
    root, cert, key = (_text(url, name) for name in ("ssl_ca", "ssl_cert", "ssl_key"))
    if mode is None:
        if switch in SWITCHED_OFF or not (switch or root or cert):
            return None
        if switch and switch not in SWITCHED_ON:
            msg = f"{url.public_url()}: ssl={switch} cannot be: give true or false"
            raise DeclarationError(msg)
        mode = "verify_identity" if switch or not root else "verify_ca"
    mode = mode.lower().replace("-", "_")
    if mode == "disabled":
        return None
    if mode not in {"required", "verify_ca", "verify_identity", "verify_full"}:
        msg = f"{url.public_url()}: ssl_mode={mode} cannot be: give disabled, required, verify_ca or verify_identity"
        raise DeclarationError(msg)
    failure = f"{url.public_url()}: the files of ssl_ca, ssl_cert and ssl_key cannot be read as certificates and a key in PEM"
    try:
        context = ssl.create_default_context(cafile=root)
        context.check_hostname = mode in {"verify_identity", "verify_full"}
        context.verify_mode = ssl.CERT_NONE if mode == "required" and root is None else ssl.CERT_REQUIRED
        if cert:
            context.load_cert_chain(cert, key, password="")  # for a key that wants one the library would ask at the terminal
    except OSError as error:
        failure = f"{failure}: {error.strerror}"
    else:
        return context
    raise DeclarationError(failure)
