"""A pool of the broker's own: sessions of one driver, given out by the rules of `drivers.gate`.

It asks the server for nothing when a session comes back: every statement leaves its session as it found it, and one that may not have is
discarded. (A driver's own pool resets a session at each release, a round trip a message, or not at all.)
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from faststream_sql.drivers.base import Connection, Server, Use
from faststream_sql.drivers.lending import GatedLending
from faststream_sql.errors import ClosedError

log = logging.getLogger("faststream_sql.drivers")


class Session(Connection, Protocol):
    """A connection that a pool owns."""

    entered: tuple[Use, str] | None
    """What it was given out for, while it is out."""
    idle_since: float
    """When it came back, by the loop's time."""

    def is_closed(self) -> bool:
        """Whether it is known to be gone, or has something to say that nobody asked for. Of a session between two statements."""
        ...

    def terminate(self) -> None:
        """Cut it off without a word to the server. Never raises."""
        ...

    async def end_transaction(self) -> bool:
        """Roll back what is open, within a moment; whether that worked. Never raises."""
        ...

    async def close(self) -> None:
        """Take leave of the server."""
        ...


S = TypeVar("S", bound=Session)


class OwnPool(GatedLending, Generic[S]):
    """Opens sessions as they are wanted, keeps them, and closes them all in the end. Of one event loop at a time."""

    overlaps = True
    idle_seconds: float | None = None
    """How long a session may lie idle in the pool before another one takes its place; None: as long as it likes."""

    def __init__(self, *, size: int, acquire_timeout: float) -> None:
        super().__init__(size=size, places=size, acquire_timeout=acquire_timeout)
        self._idle: list[S] = []
        self._all: dict[int, S] = {}  # by identity
        self._returned = asyncio.Event()

    @abstractmethod
    async def _connect_session(self) -> S:
        """Connect. Raises UnavailableError with no credential in it, nor in what it came from."""

    @abstractmethod
    async def _recognise(self, session: S) -> Server:
        """Read the server's version."""

    async def open(self) -> Server:
        self._open_gate()
        try:
            session = await self._acquire(Use.STATEMENT, "start")
            try:
                return await self._recognise(session)
            finally:
                await self.release(session)
        except BaseException:
            await self.close(0.0)
            raise

    async def acquire(self, use: Use, holder: str) -> Connection:
        return await self._acquire(use, holder)

    async def _acquire(self, use: Use, holder: str) -> S:
        self._refuse_closed()
        await self._gate.enter(use, holder)
        try:
            session = self._take_idle() or await self._connect()
        except BaseException:
            self._gate.leave(use, holder)
            raise
        session.entered = (use, holder)
        return session

    def _take_idle(self) -> S | None:
        while self._idle:
            session = self._idle.pop()
            if not session.is_closed() and not self._too_old(session):
                return session
            self._all.pop(id(session), None)
            session.terminate()  # its end may not have been read yet
        return None

    def _too_old(self, session: S) -> bool:
        return self.idle_seconds is not None and asyncio.get_running_loop().time() - session.idle_since > self.idle_seconds

    async def _connect(self) -> S:
        session = await self._connect_session()
        if not self._open:
            session.terminate()
            msg = "the pool is closed: the broker was stopped"
            raise ClosedError(msg)
        self._all[id(session)] = session
        return session

    async def release(self, connection: Connection) -> None:
        session = self._all.get(id(connection))
        if session is None or session.entered is None:
            return
        entered, session.entered = session.entered, None
        clean = False
        try:
            clean = await self._is_clean(session) and self._open
        finally:
            if clean:
                session.idle_since = asyncio.get_running_loop().time()
                self._idle.append(session)
            else:
                self._all.pop(id(session), None)
                session.terminate()
            self._gate.leave(*entered)
            self._returned.set()

    async def _is_clean(self, session: S) -> bool:
        if session.broken or session.is_closed():
            return False
        return not session.in_transaction or await session.end_transaction()

    async def close(self, timeout: float) -> None:
        self._close_gate()
        idle, self._idle = self._idle, []
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout
        try:
            await asyncio.gather(*(self._close_one(session, timeout) for session in idle))
            while self._all and loop.time() < ends:
                self._returned.clear()
                try:
                    await asyncio.wait_for(self._returned.wait(), ends - loop.time())
                except (TimeoutError, asyncio.TimeoutError):
                    break
        finally:
            for session in self._all.values():
                session.terminate()
            self._all.clear()

    async def _close_one(self, session: S, timeout: float) -> None:
        self._all.pop(id(session), None)
        try:
            await asyncio.wait_for(session.close(), max(timeout, 0.1))
        except Exception as error:
            log.debug("a connection did not close in time and is cut off: %r", error)
            session.terminate()
