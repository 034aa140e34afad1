"""How a moment is written in each kind of column, and read back.

The engine knows aware UTC datetimes only. A column stores them in one of five kinds; `TimeCodec` turns one into the other without losing
or inventing a digit, since a lease's expiry is compared for equality later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from typing_extensions import assert_never

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class TimeKind(Enum):
    AWARE = "aware"
    """Postgres `timestamptz`: an aware datetime."""
    NAIVE_UTC = "naive_utc"
    """Postgres `timestamp`, MySQL `DATETIME(n)`: a datetime without a zone that means UTC."""
    ISO_TEXT = "iso_text"
    """SQLite text, `YYYY-MM-DDTHH:MM:SS.ffffff+00:00`: it sorts as text. Six digits are written, one to six are read."""
    MICROSECONDS = "microseconds"
    """SQLite integer: microseconds since 1970 in UTC."""


@dataclass(frozen=True, slots=True)
class TimeCodec:
    """Writes and reads one time column. `digits` is how many decimals of a second it keeps, 0 to 6."""

    kind: TimeKind
    digits: int = 6

    @property
    def tick(self) -> timedelta:
        """The smallest step between two values that the column tells apart."""
        return timedelta(microseconds=10 ** (6 - self.digits))

    def floor(self, moment: datetime) -> datetime:
        """The moment as the column will hold it: cut, never rounded up, so that what was sent is what is stored."""
        step = 10 ** (6 - self.digits)
        return moment.replace(microsecond=moment.microsecond // step * step)

    def encode(self, moment: datetime) -> object:
        """The value to bind for an aware moment, cut to what the column keeps: databases differ in whether they round."""
        if self.digits < 6:
            moment = self.floor(moment)
        match self.kind:
            case TimeKind.AWARE:
                return moment
            case TimeKind.NAIVE_UTC:
                return moment.astimezone(timezone.utc).replace(tzinfo=None)
            case TimeKind.ISO_TEXT:
                return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")
            case TimeKind.MICROSECONDS:
                return (moment - _EPOCH) // _MICROSECOND
            case _:
                assert_never(self.kind)

    def decode(self, value: object) -> datetime:
        """The aware UTC moment that a column's value means. Raises ValueError for a value of another form."""
        if isinstance(value, datetime):
            return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)
        if isinstance(value, int):
            return _EPOCH + timedelta(microseconds=value)
        if isinstance(value, str):
            return _from_text(value)
        msg = f"a time column holds {value!r}, which is no time"
        raise ValueError(msg)


def _from_text(text: str) -> datetime:
    head, dot, tail = text.partition(".")
    if dot:  # fromisoformat of Python 3.10 takes three or six digits only; SQLite's own strftime writes three
        digits, plus, zone = tail.partition("+")
        text = f"{head}.{digits[:6].ljust(6, '0')}{plus}{zone}"
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        msg = f"a time column holds {text!r}, which names no zone: write it as YYYY-MM-DDTHH:MM:SS.ffffff+00:00"
        raise ValueError(msg)
    return moment.astimezone(timezone.utc)
