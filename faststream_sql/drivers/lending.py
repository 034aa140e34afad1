"""What every pool does in the same way: lend a connection for the span of a `with`, and say what its gate counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faststream_sql.drivers.base import Connection, Use
from faststream_sql.drivers.gate import Gate
from faststream_sql.errors import ClosedError


class Lending(ABC):
    """The methods of `drivers.base.Pool` that follow from `acquire` and `release`, for servers that end no silent session."""

    keep_alive_seconds: float | None = None

    @abstractmethod
    async def acquire(self, use: Use, holder: str) -> Connection:
        """As `Pool.acquire`."""

    @abstractmethod
    async def release(self, connection: Connection) -> None:
        """As `Pool.release`."""

    @asynccontextmanager
    async def connection(self, use: Use, holder: str) -> AsyncIterator[Connection]:
        connection = await self.acquire(use, holder)
        try:
            yield connection
        finally:
            await self.release(connection)

    async def keep_alive(self, connection: Connection) -> None:  # noqa: B027  # a default, for most servers
        """Nothing ends a session that is silent."""


class GatedLending(Lending):
    """A pool whose connections a gate lets out: `places` at once. It may be opened again after a close, with a gate that is new."""

    def __init__(self, *, size: int, places: int, acquire_timeout: float) -> None:
        self.size = size
        self._places = places
        self._acquire_timeout = acquire_timeout
        self._gate = Gate(places, acquire_timeout)
        self._open = False

    @property
    def in_use(self) -> int:
        return self._gate.in_use

    def others_wait(self, holder: str) -> bool:
        return self._gate.others_wait(holder)

    def _open_gate(self) -> None:
        if not self._open:
            self._gate = Gate(self._places, self._acquire_timeout)
            self._open = True

    def _close_gate(self) -> None:
        """Turn everyone away who waits or comes later."""
        self._open = False
        self._gate.close()

    def _refuse_closed(self) -> None:
        if not self._open:
            msg = "the pool is closed: the broker is not started, or was stopped"
            raise ClosedError(msg)
