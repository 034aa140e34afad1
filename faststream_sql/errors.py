"""Every error that the package raises: one tree under `SQLBrokerError`.

A message says what was wrong, where, and the way out. None holds a user name, a password, a token or any other secret
of a connection: drivers hand their errors over through `drivers.redaction` and `drivers.url`.
"""

from __future__ import annotations


class SQLBrokerError(Exception):
    """The root of the tree: catch this to catch everything that the package raises."""


class DeclarationError(SQLBrokerError, ValueError):
    """A table, a subscription or a broker is described in a way that cannot work. Raised where it is written, or at start."""


class NoRouteError(DeclarationError):
    """A name leads into no table: neither `tables=` nor `table=` of the broker covers it."""


class SchemaError(SQLBrokerError):
    """The database does not have what a description names. Raised at start, with the subscription, the table and the statement."""


class ServerTooOldError(SQLBrokerError):
    """The server is older than the form needs. Raised at start, with the version found and the version needed."""


class ClosedError(SQLBrokerError):
    """The broker, its pool or a subscription is not open (not connected yet, or stopped)."""


class LeaseLostError(SQLBrokerError):
    """A settlement came too late: its lease had ended and the row was claimed again, or its lock or session is gone. Nothing changed."""


class ClockSkewError(SQLBrokerError):
    """The host's clock is so far from the database's that leases would mean nothing. Raised at start, with the difference."""


class PoolTimeoutError(SQLBrokerError, TimeoutError):
    """No connection came free within the acquire timeout. Says how large the pool is and who holds it."""


class DatabaseError(SQLBrokerError):
    """What a server or a driver reported, mapped at the driver's edge; the class says what to do about it.

    `code` is the server's own code (an SQLSTATE, a MySQL error number, an SQLite error name), or an empty string.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class TransientError(DatabaseError):
    """A deadlock, a serialization failure, a lock wait, a busy file: the statement had no effect and may be sent again."""


class ConnectionLostError(DatabaseError):
    """The connection broke, timed out or was in doubt. What it was doing may or may not have happened."""


class UnavailableError(DatabaseError):
    """The server cannot be reached or takes no more connections at present."""


class ReadOnlyError(DatabaseError):
    """The server or the file takes no writes at present (a failover, a replica, permissions)."""


class NoSpaceError(DatabaseError):
    """The disk or the server's memory is full."""


class StatementError(DatabaseError):
    """The statement does not fit the schema, or the role may not run it: a missing table, column or privilege."""


class DataError(DatabaseError):
    """The values were refused: out of range, a constraint, a bad encoding. Concerns its row alone."""


class CorruptError(DatabaseError):
    """The database reports damage."""
