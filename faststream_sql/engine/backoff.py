"""How long a row waits after an error that its handler did not answer."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from faststream_sql.errors import DeclarationError

Delay: TypeAlias = float | timedelta
Backoff: TypeAlias = "ExponentialBackoff | Delay | Sequence[Delay] | Callable[[int, BaseException | None], Delay] | None"
"""`ExponentialBackoff`, one delay, a delay for each attempt (the last one repeats), a callable of (attempt, error), or None for at once."""

LONGEST_SECONDS = 366 * 24 * 3600.0
"""No row is put off for longer than a year, whatever a callable answers."""


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """5 s, 10 s, 20 s, … at most 10 min, each up to 20 % shorter or longer, so that rows that failed together do not return together.

    Args:
        first: the delay after the first attempt, in seconds or as a timedelta.
        factor: how much longer each next delay is; at least 1.
        longest: the most that a delay grows to.
        jitter: the part by which a delay varies, 0 to 1.

    Raises:
        DeclarationError: a number is out of its range.
    """

    first: Delay = 5.0
    factor: float = 2.0
    longest: Delay = 600.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if seconds(self.first) < 0 or seconds(self.longest) < 0 or not self.factor >= 1 or not 0 <= self.jitter <= 1:
            msg = f"{self!r} cannot be: delays are 0 or more, factor is 1 or more, jitter is 0 to 1"
            raise DeclarationError(msg)

    def delay_seconds(self, attempt: int) -> float:
        """The delay after the given attempt (1 is the first)."""
        longest = seconds(self.longest)
        # the exponent is capped before the power is taken: a row of a million attempts must not overflow
        grown = seconds(self.first) * self.factor ** min(max(attempt, 1) - 1, 64)
        return min(grown, longest) * random.uniform(1 - self.jitter, 1 + self.jitter)


def seconds(delay: Delay) -> float:
    """A delay in seconds. Raises DeclarationError for what is no finite delay."""
    value = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(value, bool) or not math.isfinite(value):
        msg = f"{delay!r} is no delay: give seconds or a timedelta"
        raise DeclarationError(msg)
    return float(value)


def check_backoff(backoff: Backoff) -> Backoff:
    """The backoff itself. Raises DeclarationError for what cannot be one."""
    if backoff is None or isinstance(backoff, ExponentialBackoff) or callable(backoff):
        return backoff
    delays = backoff if isinstance(backoff, Sequence) else [backoff]
    if isinstance(backoff, (str, bytes)) or not delays or any(seconds(delay) < 0 for delay in delays):
        msg = f"backoff={backoff!r} cannot be: give a delay of 0 or more, a sequence of them, a callable (attempt, error) -> delay, or None"
        raise DeclarationError(msg)
    return backoff


def backoff_seconds(backoff: Backoff, attempt: int | None, error: BaseException | None, raised: Callable[[Exception], None]) -> float:
    """The delay after an error, in seconds from 0 to a year.

    What a callable of the user's raises, or answers that is no delay, goes to `raised`, and the default delay is taken.
    """
    number = attempt if attempt is not None else 1
    try:
        return _answer_seconds(backoff, number, error)
    except Exception as trouble:
        raised(trouble)
        return ExponentialBackoff().delay_seconds(number)


def _answer_seconds(backoff: Backoff, number: int, error: BaseException | None) -> float:
    if backoff is None:
        return 0.0
    if isinstance(backoff, ExponentialBackoff):
        delay: Delay = backoff.delay_seconds(number)
    elif isinstance(backoff, Sequence):
        delay = backoff[min(max(number, 1), len(backoff)) - 1]
    elif callable(backoff):
        delay = backoff(number, error)
    else:
        delay = backoff
    return min(max(seconds(delay), 0.0), LONGEST_SECONDS)
