"""A TCP proxy that fails on demand, and a server that takes connections and never says a word."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

Way = Literal["up", "down"]
"""To the server, or back from it."""


class FaultProxy:
    """Forwards to `upstream`, except as it is told. Made by `fault_proxy`."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._flows: dict[Way, asyncio.Event] = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._left: dict[Way, int] = {}
        self.connections = 0
        """How many were made so far."""
        self.passed: dict[Way, int] = {"up": 0, "down": 0}
        """How many bytes went through."""
        self.refusing = False
        self.resume()

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return len(self._tasks)

    def stall(self, *ways: Way) -> None:
        """Keep connections and forward nothing; without a way given, in neither direction."""
        for way in ways or self._flows:
            self._flows[way].clear()

    def resume(self) -> None:
        for flow in self._flows.values():
            flow.set()

    def stall_after(self, count: int, way: Way = "down") -> None:
        """Forward that many bytes more, then stall."""
        self._left[way] = count

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            _reset(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        ends = [writer]
        try:
            if self.refusing:
                _reset(writer)
                return
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
            ends.append(up_writer)
            self._writers.update(ends)
            await asyncio.gather(self._pump(reader, up_writer, "up"), self._pump(up_reader, writer, "down"))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.difference_update(ends)
            for end in ends:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        try:
            while data := await reader.read(65536):
                await self._flows[way].wait()
                left = self._left.get(way)
                if left is not None and len(data) >= left:
                    del self._left[way]
                    self._flows[way].clear()
                    writer.write(data[:left])
                    self.passed[way] += left
                    await self._flows[way].wait()
                    data = data[left:]
                elif left is not None:
                    self._left[way] = left - len(data)
                writer.write(data)
                self.passed[way] += len(data)
                await writer.drain()
        finally:
            writer.close()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    end = writer.get_extra_info("socket")
    if end is not None and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def fault_proxy(host: str, port: int) -> AsyncIterator[tuple[FaultProxy, int]]:
    """A proxy before a server, and the port that it listens on."""
    proxy = FaultProxy((host, port))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await proxy.close()


@asynccontextmanager
async def silent_server() -> AsyncIterator[int]:
    """The port of a server that accepts, reads, and never answers."""
    proxy = FaultProxy(("", 0))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        proxy._tasks.add(task)
        try:
            while await reader.read(65536):
                pass
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            proxy._tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await proxy.close()
