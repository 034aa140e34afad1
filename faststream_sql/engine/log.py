"""The engine's log: a callable, so that whoever stands above decides where it leads."""

from __future__ import annotations

from typing import Protocol


class Log(Protocol):
    """Where the engine says what happened: a level of `logging`, a text, and the error if there is one."""

    def __call__(self, level: int, text: str, error: BaseException | None = None) -> None: ...
