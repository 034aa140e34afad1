"""What becomes of a delivery: a closed union, and the rule that turns a failed last attempt into a dead letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Ack:
    """Done: the row is deleted, or marked as processed."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Dropped: finished like an ack."""


@dataclass(frozen=True, slots=True)
class Nack:
    """Not done: the row is due again at once, or `delay_seconds` from now. Its next delivery reads one more attempt.

    `after_error` marks the delay of a backoff: in a FIFO group the row then keeps its place, where a delay that was asked for lets others
    pass.
    """

    delay_seconds: float | None = None
    after_error: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Given up: the row moves to the dead letter, with the attempt that this delivery read."""


@dataclass(frozen=True, slots=True)
class Release:
    """Never finished: the row is due at once and its attempt is given back."""


Outcome: TypeAlias = Ack | Reject | Nack | DeadLetter | Release


@dataclass(frozen=True, slots=True)
class Limit:
    """How often a row is tried, and where it goes after that."""

    max_attempts: int
    dead_letter: str
    """The group, or the table, that dead letters go to; for messages and bound into the move by group."""


def apply_limit(outcome: Outcome, attempt: int | None, limit: Limit | None) -> Outcome:
    """The outcome that takes effect: a nack of the last attempt is a dead letter, whether it asked for a delay or not."""
    if isinstance(outcome, Nack) and limit is not None and attempt is not None and attempt >= limit.max_attempts:
        return DeadLetter()
    return outcome


def attempts_spent(attempt: int | None, limit: Limit | None) -> bool:
    """Whether a row was claimed with no attempt left: its process crashed on the last one."""
    return limit is not None and attempt is not None and attempt > limit.max_attempts
