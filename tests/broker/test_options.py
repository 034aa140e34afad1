"""The broker's options: what is refused where it is written, and durations in either spelling."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

import pytest

from faststream_sql import DeclarationError, SQLBroker


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pool_size", 0),
        ("lease", 0.5),
        ("lease", 100_000),
        ("poll_interval", 0),
        ("acquire_timeout", 0),
        ("acquire_timeout", -1),
        ("command_timeout", math.nan),
        ("command_timeout", timedelta(0)),
        ("graceful_timeout", -1),
        ("graceful_timeout", math.inf),
    ],
)
def test_what_cannot_be_is_refused_by_its_value(name: str, value: Any) -> None:
    with pytest.raises(DeclarationError, match=re.escape(repr(value))) as refused:
        SQLBroker("sqlite://", **{name: value})
    assert "give" in str(refused.value)


@pytest.mark.parametrize("graceful", [None, 0, 0.0, timedelta(0), 1.5, timedelta(seconds=90)])
def test_durations_are_seconds_or_timedeltas(graceful: Any) -> None:
    SQLBroker(
        "sqlite://",
        lease=timedelta(minutes=1),
        poll_interval=timedelta(milliseconds=1),
        acquire_timeout=timedelta(seconds=5),
        command_timeout=timedelta(seconds=30),
        graceful_timeout=graceful,
    )
