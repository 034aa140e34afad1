"""What asyncmy is called with for a URL, and what a new session is told."""

from __future__ import annotations

import ssl
from typing import Any

from asyncmy.constants.CLIENT import FOUND_ROWS

from faststream_sql.drivers.url import DatabaseURL, Secret
from faststream_sql.errors import DeclarationError

CONNECT_SECONDS = 10.0

SQL_MODE = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
"""A value that does not fit is an error: without the strict mode it would be cut in silence."""

SESSION = f"""SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00', innodb_lock_wait_timeout = 5, lock_wait_timeout = 30"""
"""For sessions of the broker's own. A cancelled statement goes on in the server: its waits for locks must end soon (in seconds)."""

SWITCHED_ON = frozenset({"1", "true", "yes", "on"})
SWITCHED_OFF = frozenset({"0", "false", "no", "off"})


def connect_timeout(url: DatabaseURL) -> float:
    """How long a connect may take, in seconds."""
    text = _text(url, "connect_timeout")
    return float(text) if text else CONNECT_SECONDS


def connect_arguments(url: DatabaseURL, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """What asyncmy is called with, but for the host. It never sees the URL.

    Raises DeclarationError for an option that is not known, or that cannot be.
    """
    unknown = sorted(set(url.options) - _OPTIONS)
    if unknown:
        msg = f"{url.public_url()}: option {unknown[0]!r} is not known. Known are {', '.join(sorted(_OPTIONS))}"
        raise DeclarationError(msg)
    charset = _text(url, "charset") or "utf8mb4"
    if charset.lower() != "utf8mb4":
        msg = f"{url.public_url()}: charset={charset} cannot be: the broker speaks utf8mb4, in which every text can be written"
        raise DeclarationError(msg)
    arguments: dict[str, Any] = {
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
    context = tls or _tls(url)
    return {**arguments, "ssl": context} if context is not None else arguments


def addresses(url: DatabaseURL) -> list[dict[str, Any]]:
    """Where to connect, in the order of preference: hosts with ports, or a Unix socket."""
    socket = _text(url, "unix_socket")
    if socket:
        return [{"unix_socket": socket}]
    found: list[dict[str, Any]] = []
    for host, port in url.hosts or (("localhost", None),):
        found.append({"unix_socket": host} if host.startswith("/") else {"host": host.strip("[]"), "port": port or 3306})
    return found


_MODES = ("ssl_mode", "ssl-mode", "sslmode")
_OPTIONS = frozenset({"connect_timeout", "charset", "unix_socket", "ssl", "ssl_ca", "ssl_cert", "ssl_key", *_MODES})


def _text(url: DatabaseURL, name: str) -> str | None:
    value = url.options.get(name)
    return value.reveal() if isinstance(value, Secret) else value


def _tls(url: DatabaseURL) -> ssl.SSLContext | None:
    """TLS as MySQL's own clients mean `ssl_mode`; `ssl=true` verifies the certificate and the host's name."""
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
    context = ssl.create_default_context(cafile=root)
    context.check_hostname = mode in {"verify_identity", "verify_full"}
    context.verify_mode = ssl.CERT_NONE if mode == "required" and root is None else ssl.CERT_REQUIRED
    if cert:
        context.load_cert_chain(cert, key)
    return context
