"""The options of a subscription: one frozen value that checks itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from faststream_sql.engine.backoff import Backoff, Delay, ExponentialBackoff, check_backoff, seconds
from faststream_sql.engine.outcome import Limit
from faststream_sql.errors import DeclarationError
from faststream_sql.table.table import QueueTable

LONGEST_LEASE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """How a subscription claims, retries and gives up. Durations are seconds or a timedelta.

    Raises:
        DeclarationError: a value is out of its range.
    """

    max_workers: int = 1
    """How many handlers run at once; 1 or more. Of several, three times as many deliveries may wait for their commit."""
    max_attempts: int | None = None
    """How many deliveries a row gets before it goes to `dead_letter`; the two go together."""
    dead_letter: str | QueueTable | None = None
    """The group (or, for a table without groups, the table) that dead letters move to."""
    lease: Delay | None = None
    """How long a claimed row stays out of the queue if its process crashes: a whole number of seconds; the broker's unless given."""
    poll_interval: Delay | None = None
    """How long an idle subscription waits before it looks again; the broker's unless given."""
    prefetch: int | None = None
    """How many rows may be claimed ahead of the workers (lease form); `max_workers` unless given."""
    backoff: Backoff = ExponentialBackoff()
    """The delay after an error that the handler did not answer."""

    def __post_init__(self) -> None:
        _check_count("max_workers", self.max_workers, 1)
        if self.max_attempts is not None:
            _check_count("max_attempts", self.max_attempts, 1)
        if self.prefetch is not None:
            _check_count("prefetch", self.prefetch, 0)
        if self.lease is not None:
            lease_seconds(self.lease)
        if self.poll_interval is not None:
            poll_seconds(self.poll_interval)
        check_backoff(self.backoff)

    def limit(self) -> Limit | None:
        """The attempts that a row has and where it goes after them, or None."""
        if self.max_attempts is None or self.dead_letter is None:
            return None
        name = self.dead_letter if isinstance(self.dead_letter, str) else self.dead_letter.qualified_name
        return Limit(self.max_attempts, name)


def _check_count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or value < least:
        msg = f"{name}={value!r} cannot be: give a whole number, {least} or more"
        raise DeclarationError(msg)


def lease_seconds(lease: Delay) -> int:
    """A lease in seconds. Raises DeclarationError for what is no whole number of seconds from 1 to a day."""
    value = seconds(lease)
    if not 1 <= value <= LONGEST_LEASE_SECONDS or value != math.floor(value):
        msg = f"lease={lease!r} cannot be: give a whole number of seconds, from 1 to {LONGEST_LEASE_SECONDS}"
        raise DeclarationError(msg)
    return int(value)


def poll_seconds(interval: Delay) -> float:
    """A poll interval in seconds. Raises DeclarationError for less than a millisecond: that would be a busy loop."""
    value = seconds(interval)
    if value < 0.001:
        msg = f"poll_interval={interval!r} cannot be: give at least a millisecond"
        raise DeclarationError(msg)
    return value


def timeout_seconds(name: str, timeout: Delay) -> float:
    """A timeout in seconds. Raises DeclarationError, with the option's name, for what is no finite time over 0."""
    value = seconds(timeout)
    if value <= 0:
        msg = f"{name}={timeout!r} cannot be: give more than 0 seconds, or a timedelta"
        raise DeclarationError(msg)
    return value
