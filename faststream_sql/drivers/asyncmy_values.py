"""How a value is written into a statement for MySQL and MariaDB.

asyncmy binds no values: they are a part of the text. Its own escaping forgets the zone of a datetime, escapes bytes by a backslash also
where a session takes none, and writes an object of any kind as its `str`; so it is done here, for the kinds that are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID


def literal(value: object, *, backslashes: bool) -> bytes:
    """The value as it stands in a statement in UTF-8, for a session in which a backslash escapes, or does not (NO_BACKSLASH_ESCAPES).

    An aware datetime is written in UTC. Raises ValueError or TypeError for a value that cannot be written.
    """
    write = _WRITERS.get(type(value)) or _writer_of_base(value)
    found = write(value)
    if isinstance(found, tuple):
        head, text = found
        return head + _quoted(text, backslashes=backslashes)
    return found


def _quoted(text: bytes, *, backslashes: bool) -> bytes:
    """No byte of a character of several bytes is a quote or a backslash in UTF-8, so that bytes are enough to look at."""
    if backslashes:
        text = text.replace(b"\\", b"\\\\")
    return b"'" + text.replace(b"'", b"''") + b"'"


Written = bytes | tuple[bytes, bytes]
"""A finished text; or what stands before the quotes, and what in them."""


def _writer_of_base(value: object) -> Callable[[Any], Written]:
    """For an enum that is an integer or a text, and the like."""
    for kind in type(value).__mro__:
        if kind in _WRITERS:
            return _WRITERS[kind]
    msg = f"a value of the type {type(value).__name__} cannot be written: give one of {', '.join(kind.__name__ for kind in _WRITERS)}"
    raise TypeError(msg)


def _finite(value: float | Decimal) -> None:
    if not math.isfinite(value):
        msg = f"{value} is no number that a database takes"
        raise ValueError(msg)


def _float(value: float) -> Written:
    _finite(value)
    text = float.__repr__(value)
    return (text if "e" in text else f"{text}e0").encode()  # without an exponent it would be a decimal


def _decimal(value: Decimal) -> Written:
    _finite(value)
    return format(value, "f").encode()


def _datetime(value: datetime) -> Written:
    if value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    return b"", value.isoformat(" ").encode()


def _time(value: time) -> Written:
    if value.tzinfo is not None:
        msg = f"{value!r} names a time zone, and a time without a day cannot be converted: give a naive time"
        raise ValueError(msg)
    return b"", value.isoformat().encode()


def _timedelta(value: timedelta) -> Written:
    sign, value = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(value.days * 86400 + value.seconds, 60)
    return b"", f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{value.microseconds:06}".encode()


def _text(value: str) -> Written:
    return b"", value.encode()


def _binary(value: bytes | bytearray | memoryview) -> Written:
    return b"_binary", bytes(value)


_WRITERS: Mapping[type, Callable[[Any], Written]] = MappingProxyType(
    {
        str: _text,
        bytes: _binary,
        int: lambda value: int.__repr__(value).encode(),
        datetime: _datetime,
        type(None): lambda _: b"NULL",
        bool: lambda value: b"1" if value else b"0",
        float: _float,
        Decimal: _decimal,
        UUID: lambda value: (b"", str(value).encode()),
        date: lambda value: (b"", value.isoformat().encode()),
        time: _time,
        timedelta: _timedelta,
        bytearray: _binary,
        memoryview: _binary,
    }
)
