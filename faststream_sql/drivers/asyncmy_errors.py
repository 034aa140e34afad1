"""What an error of MySQL, MariaDB or asyncmy means: the class that says what to do about it."""

from __future__ import annotations

import asyncio

from asyncmy.errors import MySQLError

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
    # lock wait, deadlock, "record has changed", interrupted, statement timeouts
    TransientError: (1020, 1205, 1213, 1317, 1969, 3024, 3058, 3572),
    ConnectionLostError: (1053, 1080, 1158, 1159, 1160, 1161, 1927, 4031),
    UnavailableError: (1040, 1042, 1043, 1044, 1045, 1049, 1129, 1130, 1203, 1226, 1698),
    ReadOnlyError: (1290, 1792, 1836, 3100),
    NoSpaceError: (1021, 1037, 1038, 1041, 1114, 1653),
    StatementError: (1054, 1064, 1109, 1142, 1143, 1146, 1176, 1235, 1305, 1364, 1370, 1418, 1665, 4161),
    DataError: (
        *(1048, 1062, 1153, 1264, 1265, 1292, 1366, 1367, 1406, 1441, 1451, 1452, 1526, 1690, 3140, 3141, 3144, 3819),
        *(4025, 1216, 1217, 1300, 1411, 1525),
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


def mapped(error: Exception) -> DatabaseError:
    """The error of our own that one of a statement means."""
    number = number_of(error)
    if number is not None:
        kind = class_of(number)
        said = error.args[1] if len(error.args) > 1 else type(error).__name__
        if kind is ConnectionLostError:
            return ConnectionLostError(f"the connection to the database is gone: {said}", code=str(number))
        return kind(f"{number}: {said}", code=str(number))
    if isinstance(error, MySQLError | OSError):
        return ConnectionLostError(f"the connection to the database is gone: {type(error).__name__}: {error}")
    if isinstance(error, (ValueError, TypeError)):
        return DataError(f"a value cannot be sent to the database: {type(error).__name__}: {error}")
    return ConnectionLostError(f"the connection to the database is out of step: {type(error).__name__}: {error}")


def mapped_connect_error(error: BaseException, url: DatabaseURL) -> DatabaseError:
    """The error of our own that a failed connect means, with no credential in it."""
    where = url.public_url()
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return UnavailableError(f"cannot connect to {where}: no answer in time")
    number = number_of(error)
    return UnavailableError(f"cannot connect to {where}: {url.redactor().clean_error(error)}", code="" if number is None else str(number))
