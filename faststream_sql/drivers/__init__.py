"""Drivers: I/O only. Each is imported when a URL asks for it, so that a service needs the library of its own database alone."""

from __future__ import annotations

import ssl
from typing import Any

from faststream_sql.drivers.base import Pool
from faststream_sql.drivers.url import DatabaseURL
from faststream_sql.errors import DeclarationError


def open_pool(url: DatabaseURL, *, size: int, acquire_timeout: float, command_timeout: float, tls: ssl.SSLContext | None = None) -> Pool:
    """A pool for the URL, not yet connected. Times are in seconds; a `tls` context takes the place of the URL's own options.

    Raises DeclarationError, naming what to install, where the driver's library is missing.
    """
    missing: DeclarationError
    try:
        match url.backend:
            case "postgresql":
                from faststream_sql.drivers.asyncpg import AsyncpgPool

                return AsyncpgPool(url, size=size, acquire_timeout=acquire_timeout, command_timeout=command_timeout, tls=tls)
            case "sqlite":
                from faststream_sql.drivers.aiosqlite import AiosqlitePool

                return AiosqlitePool(url, size=size, acquire_timeout=acquire_timeout, command_timeout=command_timeout)
            case "mysql" | "mariadb":
                from faststream_sql.drivers.asyncmy import AsyncmyPool

                return AsyncmyPool(url, size=size, acquire_timeout=acquire_timeout, command_timeout=command_timeout, tls=tls)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("faststream_sql"):
            raise
        extra = {"postgresql": "postgres", "sqlite": "sqlite"}.get(url.backend, "mysql")
        missing = DeclarationError(f"{url.backend} needs the library {error.name!r}: pip install 'faststream-sql[{extra}]'")
    raise missing


def service_pool(pool: Any, *, size: int, acquire_timeout: float, command_timeout: float) -> Pool:
    """A pool around one that the service owns. `size` counts where its own has no bound. Times are in seconds.

    Raises DeclarationError for a kind that is not known.
    """
    match type(pool).__module__.partition(".")[0]:
        case "asyncpg":
            from faststream_sql.drivers.asyncpg_service import AsyncpgServicePool

            return AsyncpgServicePool(pool, acquire_timeout=acquire_timeout, command_timeout=command_timeout)
        case "asyncmy":
            from faststream_sql.drivers.asyncmy_service import AsyncmyServicePool

            return AsyncmyServicePool(pool, acquire_timeout=acquire_timeout, command_timeout=command_timeout)
        case "sqlalchemy":
            from faststream_sql.drivers.sqlalchemy_service import engine_pool

            return engine_pool(pool, size=size, acquire_timeout=acquire_timeout, command_timeout=command_timeout)
        case _:
            pass
    msg = f"a {type(pool).__name__} is no pool that is known: give an asyncpg.Pool, an asyncmy pool, an AsyncEngine of SQLAlchemy, or a URL"
    raise DeclarationError(msg)
