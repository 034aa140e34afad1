"""What a row's payload and headers are read as: the same as by the standard library's reader, however they are read."""

from __future__ import annotations

import json

import pytest

from faststream_sql.broker.parser import decode, parse_message, read_headers
from faststream_sql.engine import Delivery, Outcome

JSON_TEXTS = [
    '{"a": 1, "a": 2}',
    '"\\ud800"',
    "\ufeff{}",
    "NaN",
    "[1e400, -0, -0.0, 5e-324, 9007199254740993]",
    "1" * 400,
    "[" * 300 + "]" * 300,
    "{",
    "[01]",
    '{"a": 1} x',
    "",
]


async def _settle(delivery: Delivery, outcome: Outcome) -> None:
    """There is no row."""


def _delivery(payload: object, headers: object) -> Delivery:
    return Delivery(
        key=1,
        row_id=1,
        group="q",
        attempt=1,
        names=(),
        values=(),
        payload=payload,
        headers=headers,
        suspect=False,
        hold=None,
        settle=_settle,
    )


@pytest.mark.parametrize("text", JSON_TEXTS, ids=lambda text: text[:16] or "empty")
async def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    message = await parse_message(_delivery(text.encode(), '{"content-type": "application/json"}'))
    try:
        expected = repr(json.loads(text.encode()))
    except ValueError:
        with pytest.raises(ValueError, match=r".+"):
            await decode(message)
    else:
        assert repr(await decode(message)) == expected


async def test_a_payload_without_a_content_type_is_json_where_it_can_be() -> None:
    assert await decode(await parse_message(_delivery(b'{"a": 1}', None))) == {"a": 1}
    assert await decode(await parse_message(_delivery(b"a: 1", None))) == b"a: 1"
    assert await decode(await parse_message(_delivery(b"1", '{"content-type": "text/plain"}'))) == "1"


@pytest.mark.parametrize("raw", ['{"a": "\\ud800"}', b'{"a": "\\ud800"}', memoryview(b'{"a": "\\ud800"}'), {"a": "\ud800"}])
def test_headers_are_read_from_whatever_the_driver_gives(raw: object) -> None:
    assert read_headers(raw) == {"a": "\ud800"}


@pytest.mark.parametrize("raw", [None, 7, "{", "[1]", b"\xff"])
def test_headers_that_are_none_are_empty(raw: object) -> None:
    assert read_headers(raw) == {}
