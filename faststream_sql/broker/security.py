"""FastStream's security objects, as a driver takes them: who logs in, and by which TLS."""

from __future__ import annotations

import ssl
from dataclasses import replace

from faststream.security import BaseSecurity, SASLPlaintext

from faststream_sql.drivers.url import DatabaseURL, Secret
from faststream_sql.errors import DeclarationError


def apply_security(url: DatabaseURL | None, security: BaseSecurity | None) -> tuple[DatabaseURL | None, ssl.SSLContext | None]:
    """The URL with the login of a `SASLPlaintext`, and the TLS context of any of them.

    `use_ssl=True` without a context means one that verifies the server's certificate and its name.

    Raises:
        DeclarationError: there is no server to log in to (SQLite), the pool is the service's own, or the kind is of another protocol.
    """
    if security is None:
        return url, None
    if url is None:
        msg = "security= says how to connect, and the pool that was given is the service's own: set it up there"
        raise DeclarationError(msg)
    if url.backend == "sqlite":
        msg = "security= says how to connect to a server, and SQLite has none: leave it out"
        raise DeclarationError(msg)
    if type(security) not in {BaseSecurity, SASLPlaintext}:
        msg = (
            f"security={type(security).__name__} is of another protocol: give BaseSecurity (TLS) or SASLPlaintext (user, password and TLS)"
        )
        raise DeclarationError(msg)
    context = security.ssl_context
    if context is None and security.use_ssl:
        context = ssl.create_default_context()
    if isinstance(security, SASLPlaintext):
        url = replace(url, user=Secret(security.username), password=Secret(security.password))
    return url, context
