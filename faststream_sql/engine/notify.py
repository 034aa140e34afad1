"""Wake-ups from other processes: publishes notify, and one session of this process listens.

A notification is a hint that may be lost; polling stays the floor. After every reconnection everyone looks once, for what was missed.
"""

from __future__ import annotations

import asyncio
import logging
import random

from faststream_sql.drivers.base import Listener, Pool
from faststream_sql.engine.clock import Clock
from faststream_sql.engine.log import Log
from faststream_sql.engine.wakeup import WakeupHub
from faststream_sql.errors import ClosedError, DeclarationError, SQLBrokerError
from faststream_sql.table.table import QueueTable

PROBE_SECONDS = 15.0
"""How often the listening session is asked whether it is still there."""
PROBE_TIMEOUT_SECONDS = 5.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
MAX_CHANNEL_BYTES = 63
MAX_PAYLOAD_BYTES = 7999
"""The longest channel and payload that Postgres takes."""


def channel_of(table: QueueTable) -> str:
    """The channel of a table: its name, with its schema as declared. Raises DeclarationError for one that Postgres would cut short."""
    channel = table.qualified_name
    if len(channel.encode()) > MAX_CHANNEL_BYTES:
        msg = (
            f"table {channel!r} is the name of a channel too, and Postgres takes {MAX_CHANNEL_BYTES} bytes: shorten it, or leave "
            "listen_notify out"
        )
        raise DeclarationError(msg)
    return channel


def payload_of(group: str | None) -> str:
    """What a notification says: the group, or nothing (everyone looks) where that is too long or there is none."""
    return group if group is not None and len(group.encode()) <= MAX_PAYLOAD_BYTES else ""


class Listening:
    """Keeps one listening session up, and wakes subscriptions by what it hears."""

    def __init__(self, pool: Pool, hub: WakeupHub, clock: Clock, log: Log) -> None:
        self._pool = pool
        self._hub = hub
        self._clock = clock
        self._log = log
        self._tables: dict[str, QueueTable] = {}
        self._session: Listener | None = None
        self._task: asyncio.Task[None] | None = None

    async def add(self, table: QueueTable) -> None:
        """Hear of a table's publishes. Starts listening with the first one."""
        channel = channel_of(table)
        if channel in self._tables:
            return
        self._tables[channel] = table
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_up(), name="listening")
        elif self._session is not None:
            try:
                await self._session.listen(channel)
            except SQLBrokerError:
                self._session.terminate()  # it comes back with every channel

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def _heard(self, channel: str, payload: str) -> None:
        table = self._tables.get(channel)
        if table is not None and payload:
            self._hub.published(table, payload, None)
        else:
            self._hub.wake_all()

    async def _keep_up(self) -> None:
        pause, told = FIRST_PAUSE_SECONDS, False
        while True:
            try:
                session = await self._connect()
            except ClosedError:
                return
            except SQLBrokerError as error:
                if not told:
                    self._log(logging.WARNING, f"cannot listen for notifications, polling goes on: {error}", error)
                    told = True
                await self._clock.sleep(pause * random.uniform(0.7, 1.3))
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            pause, told = FIRST_PAUSE_SECONDS, False
            self._hub.wake_all()
            try:
                await self._watch(session)
            finally:
                self._session = None
                session.terminate()
            self._log(logging.WARNING, "the listening session ended, and is opened anew")

    async def _connect(self) -> Listener:
        session = await self._pool.listener(self._heard)
        if session is None:
            msg = "listen_notify needs Postgres: leave it out, subscriptions poll"
            raise DeclarationError(msg)
        try:
            for channel in list(self._tables):
                await session.listen(channel)
        except BaseException:
            session.terminate()
            raise
        self._session = session
        return session

    async def _watch(self, session: Listener) -> None:
        """Return when the session is gone."""
        while not await self._clock.wait(session.ended, PROBE_SECONDS):
            try:
                await session.probe(PROBE_TIMEOUT_SECONDS)
            except SQLBrokerError:
                return
