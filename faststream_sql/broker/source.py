"""Which database a broker works on: a URL that is parsed once, or a pool that the service owns."""

from __future__ import annotations

from typing import Any

from faststream.security import BaseSecurity

from faststream_sql.broker.security import apply_security
from faststream_sql.drivers import open_pool, service_pool
from faststream_sql.drivers.base import Pool
from faststream_sql.drivers.service_address import address_of
from faststream_sql.drivers.url import DatabaseURL, parse_url, redact_url
from faststream_sql.errors import DeclarationError


class DatabaseSource:
    """Makes the broker's pool, and says in public where it leads. Holds no text of a URL.

    Raises:
        DeclarationError: the URL cannot be read, or what was given is neither a URL nor a pool that is known.
    """

    def __init__(
        self, given: Any, *, size: int, acquire_timeout: float, command_timeout: float, security: BaseSecurity | None = None
    ) -> None:
        self._url: DatabaseURL | None = None
        self._service: Any = None
        if isinstance(given, DatabaseURL):
            self._url = given
        elif isinstance(given, str):
            self._url = parse_url(given)
        else:
            self._service = given
        self._address = self._url or _address_of(given)
        self.protocol = self._address.backend
        self._url, self._tls = apply_security(self._url, security)
        self._size = size
        self._acquire_timeout = acquire_timeout
        self._command_timeout = command_timeout

    def __repr__(self) -> str:
        return f"DatabaseSource({self.specification_url(None)!r})"

    def elsewhere(self, url: str) -> DatabaseSource:
        """Another database, with the same settings of the pool."""
        return DatabaseSource(url, size=self._size, acquire_timeout=self._acquire_timeout, command_timeout=self._command_timeout)

    def pool(self) -> Pool:
        """A pool, not yet open: the broker's own, or one around the service's."""
        if self._url is None:
            return service_pool(
                self._service, size=self._size, acquire_timeout=self._acquire_timeout, command_timeout=self._command_timeout
            )
        return open_pool(
            self._url, size=self._size, acquire_timeout=self._acquire_timeout, command_timeout=self._command_timeout, tls=self._tls
        )

    def specification_url(self, asked: str | None) -> str:
        """The server's URL for documents: rebuilt from what may be shown, also where the service gave one of its own."""
        if asked is not None:
            return redact_url(asked) or f"{self.protocol}://"
        return self._address.public_url()


def _address_of(pool: Any) -> DatabaseURL:
    address = address_of(pool)
    if address is None:
        msg = (
            f"SQLBroker({type(pool).__name__}) cannot be: give a URL (postgresql://, mysql://, sqlite:///file.db), an asyncpg.Pool, "
            "an asyncmy pool, or an AsyncEngine of SQLAlchemy"
        )
        raise DeclarationError(msg)
    return address
