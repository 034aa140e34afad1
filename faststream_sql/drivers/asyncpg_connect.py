"""What asyncpg is called with for a URL."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any

from faststream_sql.drivers.url import LIBPQ_OPTIONS, DatabaseURL, Secret
from faststream_sql.errors import DeclarationError

PASSED_ON = ("passfile", "service", "servicefile", "target_session_attrs", "krbsrvname", "gsslib")
"""Options of libpq that asyncpg takes under the same name."""

NEEDLESS: Mapping[str, frozenset[str]] = {
    "channel_binding": frozenset({"disable", "prefer"}),
    "client_encoding": frozenset({"utf8", "utf-8", "unicode", "auto"}),
    "gssdelegation": frozenset({"0"}),
    "gssencmode": frozenset({"disable", "prefer"}),
    "load_balance_hosts": frozenset({"disable"}),
    "replication": frozenset({"0", "false", "off", "no"}),
    "requiressl": frozenset({"0"}),
    "ssl_min_protocol_version": frozenset({"tlsv1", "tlsv1.1", "tlsv1.2"}),
    "sslcertmode": frozenset({"allow"}),
    "sslcompression": frozenset({"0"}),
    "sslnegotiation": frozenset({"postgres"}),
    "sslsni": frozenset({"1"}),
}
"""Values of libpq's options that ask for what asyncpg does in any case: they are left out. It does nothing else with these options."""

HANDLED = frozenset({"connect_timeout", "fallback_application_name", "sslcert", "sslkey", "sslmode", "sslpassword", "sslrootcert"})
SETTINGS = frozenset({"application_name", "options"})
"""Options of libpq that the server takes at connect, as it takes its own settings."""

_SOCKET = {
    "keepalives_idle": "TCP_KEEPIDLE",
    "keepalives_interval": "TCP_KEEPINTVL",
    "keepalives_count": "TCP_KEEPCNT",
    "tcp_user_timeout": "TCP_USER_TIMEOUT",
}
"""The operating system's names for them. A value of 0 leaves one as it is."""


def _reveal(value: str | Secret | None) -> str | None:
    return value.reveal() if isinstance(value, Secret) else value


def connect_arguments(url: DatabaseURL, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """What asyncpg is called with. It never sees the URL: its own parser puts parts of a password into its errors.

    Raises DeclarationError for an option of libpq that asyncpg cannot carry out. What libpq does not know is a setting of the server's.
    """
    options = {name: value for name, value in _options(url).items() if name not in _SOCKET and name != "keepalives"}
    arguments: dict[str, Any] = {"timeout": float(options.pop("connect_timeout", "10"))}
    if url.hosts:
        arguments["host"] = [host for host, _ in url.hosts]
        if any(port for _, port in url.hosts):
            arguments["port"] = [port or 5432 for _, port in url.hosts]
    named = {"user": _reveal(url.user), "password": _reveal(url.password), "database": url.database}
    arguments |= {name: value for name, value in named.items() if value is not None}
    for name in PASSED_ON:
        if name in options:
            arguments[name] = options.pop(name)
    if "statement_cache_size" in options:
        arguments["statement_cache_size"] = int(options.pop("statement_cache_size"))
    arguments |= _tls_arguments(options, tls)
    name = options.pop("fallback_application_name", "faststream_sql")
    settings = {"application_name": name, **options}
    arguments["server_settings"] = settings
    return arguments


def socket_options(url: DatabaseURL) -> list[tuple[int, int, int]]:
    """What the URL asks of the connection's socket (libpq's `keepalives…` and `tcp_user_timeout`): level, option, value of each.

    An option that the operating system does not have is left out, as by libpq.
    """
    options = {name: _number(url, name, value) for name, value in _options(url).items() if name in _SOCKET or name == "keepalives"}
    if not options:
        return []
    found = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(options.pop("keepalives", 1) != 0))]
    for name, value in options.items():
        option = getattr(socket, _SOCKET[name], None)
        if option is not None and value > 0:
            found.append((socket.IPPROTO_TCP, option, value))
    return found


def _number(url: DatabaseURL, name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        msg = f"{url.public_url()}: option {name!r} is a whole number"
    raise DeclarationError(msg)


def _options(url: DatabaseURL) -> dict[str, str]:
    """The options that do anything, as plain text. To libpq an empty value is none."""
    options = {name: text for name, value in url.options.items() if (text := _reveal(value))}
    if "ssl" in options:  # as in URLs of SQLAlchemy
        mode = options.pop("ssl")
        options.setdefault("sslmode", "verify-full" if mode in {"1", "true", "True"} else mode)
    for name in sorted(LIBPQ_OPTIONS & options.keys() - HANDLED - SETTINGS - _SOCKET.keys() - {*PASSED_ON, "keepalives"}):
        known = NEEDLESS.get(name, frozenset())
        if options.pop(name).lower() not in known:
            way_out = f" but as {' or '.join(sorted(known))}" if known else ""
            msg = f"{url.public_url()}: asyncpg cannot do what the option {name!r} asks for{way_out}: remove it from the URL"
            raise DeclarationError(msg)
    return options


def _tls_arguments(options: dict[str, str], tls: ssl.SSLContext | None) -> dict[str, Any]:
    """TLS as libpq means its options. A context that was given decides by itself."""
    mode, root, cert, key = (options.pop(name, None) for name in ("sslmode", "sslrootcert", "sslcert", "sslkey"))
    secret = options.pop("sslpassword", None)
    if tls is not None:
        return {"ssl": tls}
    if root is None and cert is None:
        return {} if mode is None else {"ssl": mode}
    if mode == "disable":
        return {"ssl": "disable"}
    verify = mode in {"verify-ca", "verify-full"} or root is not None
    context = ssl.create_default_context(cafile=root if root != "system" else None)
    context.check_hostname = mode == "verify-full" or root == "system"
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if cert is not None:
        context.load_cert_chain(cert, key, secret)
    return {"ssl": context}
