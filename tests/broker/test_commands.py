"""The commands that travel through the middlewares."""

from __future__ import annotations

from typing import Any

import pytest
from faststream import BaseMiddleware, BatchPublishCommand, Response
from faststream.response import PublishType, ensure_response

from faststream_sql import SQLBroker
from faststream_sql.broker.response import SQLBatchPublishCommand, SQLPublishCommand
from faststream_sql.testing import TestSQLBroker


def test_a_command_of_an_answer() -> None:
    assert SQLPublishCommand.from_cmd(ensure_response(1).as_publish_command()).body == 1
    cmd = SQLPublishCommand.from_cmd(Response(1, headers={"1": 1}).as_publish_command())
    assert (cmd.body, cmd.headers) == (1, {"1": 1})


@pytest.mark.parametrize("answer", [None, (), "123", "", b"", [1, 2, 3], [0, 1, 2]])
def test_a_batch_of_an_answer(answer: Any) -> None:
    cmd = SQLBatchPublishCommand.from_cmd(ensure_response(answer).as_publish_command(), batch=True)
    assert cmd.batch_bodies == (() if answer is None else (answer,) if isinstance(answer, (str, bytes)) else tuple(answer))
    assert SQLBatchPublishCommand.from_cmd(cmd) is cmd


def test_bodies_are_set_and_kept_apart() -> None:
    cmd = SQLBatchPublishCommand([None, 0], _publish_type=PublishType.PUBLISH)
    assert cmd.batch_bodies == (None, 0)
    cmd.batch_bodies = (1, 2, 3)
    assert (cmd.body, cmd.extra_bodies, cmd.batch_bodies) == (1, (2, 3), (1, 2, 3))
    cmd.batch_bodies = ()
    assert (cmd.body, cmd.extra_bodies, cmd.batch_bodies) == (None, (), ())


async def test_middlewares_know_a_batch_and_may_change_it() -> None:
    class Backwards(BaseMiddleware[Any, Any]):
        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            if isinstance(cmd, BatchPublishCommand):
                cmd.batch_bodies = tuple(reversed(cmd.batch_bodies))
            return await call_next(cmd)

    broker, got = SQLBroker(middlewares=(Backwards,)), list[Any]()

    @broker.subscriber("q")
    async def handle(body: Any) -> None:
        got.append(body)

    async with TestSQLBroker(broker) as br:
        await br.publish_batch("a", "b", "c", queue="q")
    assert got == ["c", "b", "a"]
