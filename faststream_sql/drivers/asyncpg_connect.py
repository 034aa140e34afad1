"""What asyncpg is called with for a URL."""

from __future__ import annotations

import ssl
from typing import Any

from faststream_sql.drivers.url import DatabaseURL, Secret


def _reveal(value: str | Secret | None) -> str | None:
    return value.reveal() if isinstance(value, Secret) else value


def connect_arguments(url: DatabaseURL, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """What asyncpg is called with. It never sees the URL: its own parser puts parts of a password into its errors."""
    options = {name: _reveal(value) for name, value in url.options.items()}
    arguments: dict[str, Any] = {"timeout": float(options.pop("connect_timeout", None) or 10.0)}
    if url.hosts:
        arguments["host"] = [host for host, _ in url.hosts]
        if any(port for _, port in url.hosts):
            arguments["port"] = [port or 5432 for _, port in url.hosts]
    named = {"user": _reveal(url.user), "password": _reveal(url.password), "database": url.database}
    arguments |= {name: value for name, value in named.items() if value is not None}
    for name in ("passfile", "target_session_attrs", "krbsrvname", "gsslib"):
        if options.get(name) is not None:
            arguments[name] = options.pop(name)
    if "statement_cache_size" in options:
        arguments["statement_cache_size"] = int(options.pop("statement_cache_size") or 0)
    arguments |= _tls_arguments(options, tls)
    settings = {"application_name": "faststream_sql", **{name: value for name, value in options.items() if value is not None}}
    arguments["server_settings"] = settings
    return arguments


def _tls_arguments(options: dict[str, str | None], tls: ssl.SSLContext | None) -> dict[str, Any]:
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
