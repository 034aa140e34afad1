"""A pool that the service owns: connections are borrowed from it by the rules of `drivers.gate`, and it is never closed here.

A subclass says how the service's pool is asked; `Sessions` says what a driver's connection needs before it serves, and after.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from faststream_sql.drivers.base import Connection, Listener, Server, Use
from faststream_sql.drivers.lending import GatedLending
from faststream_sql.drivers.redaction import alone
from faststream_sql.errors import ConnectionLostError, PoolTimeoutError, SQLBrokerError, UnavailableError

RETURN_SECONDS = 1.0
"""How long a service's pool has to take a connection back."""

log = logging.getLogger("faststream_sql.drivers")

S = TypeVar("S", bound=Connection)
T = TypeVar("T")


class Sessions(ABC, Generic[S]):
    """What a driver does with a connection that belongs to somebody else."""

    overlaps = True
    """Whether statements on two connections run at the same time."""

    @abstractmethod
    async def session(self, raw: Any) -> S:
        """Our session on a connection of the driver's, set up. Raises ConnectionLostError where it turned out to be gone."""

    @abstractmethod
    async def set_back(self, session: S, *, sound: bool) -> bool:
        """Leave the connection as it was found, or cut off one that is not sound. Whether it may be lent again."""

    @abstractmethod
    async def recognise(self, session: S) -> Server:
        """Read the server's version."""

    @abstractmethod
    async def borrow(self, connection: object) -> Connection:
        """As `Pool.borrow`."""

    def listen(self, session: S, heard: Callable[[str, str], None], give_back: Callable[[], None]) -> Listener | None:
        """A listener on the session, which calls `give_back` in the end; None where the database sends no notifications."""
        return None

    async def process_keys(self) -> set[object] | None:
        """As `Pool.process_keys`."""
        return None

    def close(self) -> None:
        """Let go of the process's keys, where it holds them."""


@dataclass(frozen=True, slots=True)
class Lent(Generic[S]):
    """A connection that is out: our session on it, and what the service's pool gave."""

    session: S
    given: object
    use: Use
    holder: str


class ServicePool(GatedLending, Generic[S]):
    """Borrows from a pool of the service's. `size` is the most that it may lend."""

    def __init__(self, sessions: Sessions[S], *, size: int, acquire_timeout: float) -> None:
        super().__init__(size=size, places=size if sessions.overlaps else 1, acquire_timeout=acquire_timeout)
        self.overlaps = sessions.overlaps
        self._sessions = sessions
        self._out: dict[int, Lent[S]] = {}  # by the identity of the session
        self._returning: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _borrow(self) -> object:
        """What the service's pool gives, however long it takes."""

    @abstractmethod
    async def _raw(self, given: object) -> object:
        """The driver's connection in what was given."""

    @abstractmethod
    async def _hand_back(self, given: Any, *, sound: bool) -> None:
        """Give it back; one that is not sound must not be lent again."""

    async def open(self) -> Server:
        self._open_gate()
        session = await self._acquire(Use.STATEMENT, "start")
        try:
            return await self._sessions.recognise(session)
        finally:
            await self.release(session)

    async def acquire(self, use: Use, holder: str) -> Connection:
        return await self._acquire(use, holder)

    async def _acquire(self, use: Use, holder: str) -> S:
        self._refuse_closed()
        if use is Use.DELIVERY and not self.overlaps:
            use = Use.STATEMENT
        await self._gate.enter(use, holder)
        try:
            session, given = await self._lend()
        except BaseException:
            self._gate.leave(use, holder)
            raise
        self._out[id(session)] = Lent(session, given, use, holder)
        return session

    async def _lend(self) -> tuple[S, object]:
        """A connection that works: what lay in the service's pool while the server was away is given back until one answers."""
        for _ in range(self.size):
            given = await self._given_in_time()
            try:
                return await self._sessions.session(await self._raw(given)), given
            except ConnectionLostError as error:
                log.debug("the service's pool gave a connection that is gone: %r", error)
                await self._return(given, None, sound=False)
            except BaseException:
                await self._return(given, None, sound=False)
                raise
        msg = f"the service's pool of {self.size} gave no connection that works"
        raise UnavailableError(msg)

    async def _given_in_time(self) -> object:
        failure: SQLBrokerError
        try:
            return await within(self._borrow(), self._acquire_timeout, self._came_late)
        except (TimeoutError, asyncio.TimeoutError):
            failure = PoolTimeoutError(
                f"the service's pool of {self.size} gave no connection in {self._acquire_timeout:g} s, of which the broker holds "
                f"{len(self._out)}. Make the pool larger, lower max_workers, or set acquire_timeout"
            )
        except Exception as error:  # whatever its driver raises; the text may hold a credential
            failure = UnavailableError(f"the service's pool gave no connection: {type(error).__name__}")
        with alone():
            raise failure

    def _came_late(self, given: object) -> None:
        self._in_background(self._give_back(given, None, sound=True))

    async def release(self, connection: Connection) -> None:
        lent = self._out.pop(id(connection), None)
        if lent is None:
            return
        try:
            sound = not (lent.session.broken or lent.session.in_transaction)
            await self._return(lent.given, lent.session, sound=sound)
        finally:
            self._gate.leave(lent.use, lent.holder)

    async def _return(self, given: object, session: S | None, *, sound: bool) -> None:
        """Give a connection back, also where whoever waits for that is cancelled: the service's pool would miss it for ever."""
        await asyncio.shield(self._in_background(self._give_back(given, session, sound=sound)))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)
        return task

    async def _give_back(self, given: object, session: S | None, *, sound: bool) -> None:
        if session is not None:
            try:
                sound = await asyncio.wait_for(self._sessions.set_back(session, sound=sound), RETURN_SECONDS)
            except Exception as error:
                log.debug("a session of the service's could not be set back: %r", error)
                sound = False
        try:
            await asyncio.wait_for(self._hand_back(given, sound=sound), RETURN_SECONDS)
        except Exception as error:
            log.debug("the service's pool took a connection back with %r", error)

    async def close(self, timeout: float) -> None:
        """Take back what is out. The service's pool stays open."""
        self._close_gate()
        for lent in list(self._out.values()):
            lent.session.broken = True
            await self.release(lent.session)
        if self._returning:
            await asyncio.wait(set(self._returning), timeout=max(timeout, 0.1))
        self._sessions.close()

    async def listener(self, heard: Callable[[str, str], None]) -> Listener | None:
        session = await self._acquire(Use.STATEMENT, "listening")  # one of the service's, for life

        def give_back() -> None:
            session.broken = True
            self._in_background(self.release(session))

        listener = self._sessions.listen(session, heard, give_back)
        if listener is None:
            await self.release(session)
        return listener

    async def process_keys(self) -> set[object] | None:
        return await self._sessions.process_keys()

    async def borrow(self, connection: object) -> Connection:
        return await self._sessions.borrow(connection)


async def within(awaitable: Awaitable[T], seconds: float, let_go: Callable[[T], None]) -> T:
    """Await for `seconds` at most. What comes in the very moment of a timeout or a cancellation goes to `let_go`, and is not lost."""

    async def wait() -> T:
        return await awaitable

    task = asyncio.ensure_future(wait())

    def ended(_: asyncio.Task[T]) -> None:
        if not task.cancelled() and task.exception() is None:
            let_go(task.result())

    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.add_done_callback(ended)
        task.cancel()
        raise
    if not done:
        task.add_done_callback(ended)
        task.cancel()
        raise TimeoutError
    return task.result()
