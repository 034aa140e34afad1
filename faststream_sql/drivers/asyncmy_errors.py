"""What an error of MySQL, MariaDB or asyncmy means: the class that says what to do about it."""

from __future__ import annotations

import asyncio

from asyncmy.errors import MySQLError

from faststream_sql.drivers.redaction import Redactor
from faststream_sql.drivers.url import DatabaseURL
from faststream_sql.errors import (
    ConnectionLostError,
    CorruptError,
    DatabaseError,
    DataError,
    NoSpaceError,
    ReadOnlyError,
    StatementError,
    TransientError,
    UnavailableError,
)

_CLASSES: dict[type[DatabaseError], tuple[int, ...]] = {
    # lock wait, deadlock, "record has changed", interrupted, statement timeouts; a table or a plan that changed meanwhile
    TransientError: (1020, 1205, 1213, 1317, 1969, 3024, 3058, 3101, 3572, 1412, 1615),
    ConnectionLostError: (1053, 1080, 1152, 1158, 1159, 1160, 1161, 1927, 3169, 4031),
    UnavailableError: (1040, 1042, 1043, 1045, 1047, 1129, 1130, 1203, 1226, 1698),
    ReadOnlyError: (1290, 1792, 1836, 3100),
    NoSpaceError: (1021, 1037, 1038, 1041, 1114, 1206, 1653),
    StatementError: (
        *(1044, 1046, 1049, 1054, 1064, 1109, 1136, 1142, 1143, 1146, 1176, 1227, 1235, 1305, 1364, 1370, 1418, 1665, 4161),
        *(1267, 1270, 1271),  # the column's character set lacks a letter of what it is compared with
    ),
    DataError: (
        *(1048, 1062, 1153, 1264, 1265, 1292, 1366, 1367, 1406, 1441, 1451, 1452, 1526, 1690, 3140, 3141, 3144, 3819),
        *(4025, 1216, 1217, 1300, 1411, 1525, 1644),
    ),
    CorruptError: (126, 127, 144, 145, 1034, 1035, 1194, 1195, 1877),
}
_CODES = {code: kind for kind, codes in _CLASSES.items() for code in codes}
"""By the server's number (MySQL's and MariaDB's error references). Numbers of the same meaning are the same on both."""

_CLIENT = range(2000, 3000)
"""Numbers that the client library gives: the connection is gone or out of step."""


def number_of(error: BaseException) -> int | None:
    """The server's or the client library's number; None where there is none."""
    first = error.args[0] if isinstance(error, MySQLError) and error.args else None
    return first if isinstance(first, int) else None


def class_of(number: int) -> type[DatabaseError]:
    """The class of our own for an error number."""
    if number == 0 or number in _CLIENT:
        return ConnectionLostError
    return _CODES.get(number, DatabaseError)


PACKET_TOO_LARGE = 1153
"""After it the server closes the connection."""


def leaves_session(error: Exception) -> bool:
    """Whether the session is as good as before: only after an error that the server itself reported, all of its answer being read."""
    number = number_of(error)
    return number is not None and number != PACKET_TOO_LARGE and class_of(number) is not ConnectionLostError


def mapped(error: Exception, redactor: Redactor) -> DatabaseError:
    """The error of our own that one of a statement means. It keeps the driver's as its cause, unless that names who is logged in."""
    number = number_of(error)
    said = str(error.args[1]) if number is not None and len(error.args) > 1 else f"{type(error).__name__}: {error}"
    clean = redactor.clean(said)
    kind = class_of(number) if number is not None else DataError if isinstance(error, (ValueError, TypeError)) else ConnectionLostError
    if number is None and kind is DataError:
        failure: DatabaseError = DataError(f"what the database answered cannot be read: {clean}")
    elif kind is ConnectionLostError:
        failure = ConnectionLostError(f"the connection to the database is gone: {clean}", code="" if number is None else str(number))
    else:
        failure = kind(f"{number}: {clean}", code=str(number))
    failure.__cause__ = error if clean == said else None
    return failure


def mapped_connect_error(error: BaseException, url: DatabaseURL) -> DatabaseError:
    """The error of our own that a failed connect means, with no credential in it."""
    where = url.public_url()
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return UnavailableError(f"cannot connect to {where}: no answer in time")
    number = number_of(error)
    return UnavailableError(f"cannot connect to {where}: {url.redactor().clean_error(error)}", code="" if number is None else str(number))
