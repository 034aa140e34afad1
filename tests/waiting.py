"""Waiting for what a broker does by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Return when the condition holds."""
    for _ in range(int(seconds / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("what was waited for never came")
