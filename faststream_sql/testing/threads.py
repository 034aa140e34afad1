"""The threads that work for an event loop: fake time does not move while one of them does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from anyio import CapacityLimiter, to_thread


class Threads:
    """What threads do for one event loop: for its executors, for anyio, for a driver.

    A thread that waits for the loop itself (`anyio.from_thread.run`, `asyncio.run_coroutine_threadsafe`) does not work.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._run_in_executor: Callable[..., asyncio.Future[Any]] = loop.run_in_executor
        self._jobs: set[asyncio.Future[Any]] = set()  # what threads work on
        self._limiters: set[CapacityLimiter] = {to_thread.current_default_thread_limiter()}
        self._asked: list[concurrent.futures.Future[Any]] = []  # what threads wait for

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See what threads do, for the span of a `with`."""
        with ExitStack() as stack:
            for target, name, new in (
                (self._loop, "run_in_executor", self._in_executor),
                (asyncio, "wrap_future", self._wrapping(asyncio.wrap_future)),
                (asyncio, "run_coroutine_threadsafe", self._asking(asyncio.run_coroutine_threadsafe)),
                (to_thread, "run_sync", self._in_anyio(to_thread.run_sync)),
            ):
                stack.enter_context(mock.patch.object(target, name, new))
            self._watch_aiosqlite(stack)
            yield

    def work(self) -> bool:
        """Whether a thread works."""
        busy = len(self._jobs) + sum(limiter.borrowed_tokens for limiter in self._limiters)
        return busy > sum(not asked.done() for asked in tuple(self._asked))

    def watch(self, future: asyncio.Future[Any]) -> None:
        """A thread works until the future, one of this loop's, is done."""
        if future.get_loop() is self._loop:
            self._jobs.add(future)
            future.add_done_callback(self._jobs.discard)

    def _in_executor(self, executor: Any, function: Any, *args: Any) -> asyncio.Future[Any]:
        future = self._run_in_executor(executor, function, *args)
        self.watch(future)
        return future

    def _wrapping(self, wrap: Callable[..., asyncio.Future[Any]]) -> Callable[..., asyncio.Future[Any]]:
        def wrap_future(future: Any, **options: Any) -> asyncio.Future[Any]:
            wrapped = wrap(future, **options)
            if wrapped is not future:  # else it is one of a loop's already
                self.watch(wrapped)
            return wrapped

        return wrap_future

    def _in_anyio(self, run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def run_sync(*args: Any, **options: Any) -> Awaitable[Any]:
            limiter = options.get("limiter")
            if limiter is not None and asyncio.get_running_loop() is self._loop:
                self._limiters.add(limiter)
            return run(*args, **options)

        return run_sync

    def _asking(
        self, ask: Callable[..., concurrent.futures.Future[Any]]
    ) -> Callable[[Coroutine[Any, Any, Any], asyncio.AbstractEventLoop], concurrent.futures.Future[Any]]:
        def run_coroutine_threadsafe(coro: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> concurrent.futures.Future[Any]:
            future = ask(coro, loop)
            if loop is self._loop:
                vars(future)["result"] = self._waiting(future)
            return future

        return run_coroutine_threadsafe

    def _waiting(self, future: concurrent.futures.Future[Any]) -> Callable[..., Any]:
        """The future's `result`, which says that a thread waits in it."""
        result = future.result

        def waiting(timeout: float | None = None) -> Any:
            self._asked.append(future)
            try:
                return result(timeout)
            finally:
                self._asked.remove(future)

        return waiting

    def _watch_aiosqlite(self, stack: ExitStack) -> None:
        """Aiosqlite's threads take work from a queue of their own: watched for connections opened from now on, and by call for all."""
        try:
            from aiosqlite import core
        except ModuleNotFoundError:
            return
        watch = self.watch
        execute: Callable[..., Coroutine[Any, Any, Any]] = core.Connection._execute  # noqa: SLF001 - as in drivers/aiosqlite_connection.py

        class Watched(queue.SimpleQueue[Any]):
            def put_nowait(self, item: Any) -> None:
                if item[0] is not None:
                    watch(item[0])
                super().put_nowait(item)

        def watched(connection: Any, *args: Any, **kwargs: Any) -> Awaitable[Any]:
            task: asyncio.Future[Any] = asyncio.ensure_future(execute(connection, *args, **kwargs))
            watch(task)
            return task

        stack.enter_context(mock.patch.object(core, "SimpleQueue", Watched))
        stack.enter_context(mock.patch.object(core.Connection, "_execute", watched))
