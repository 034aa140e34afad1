"""How MySQL and MariaDB spell names: identifiers, and the names of session locks."""

from __future__ import annotations

from string import Formatter

from faststream_sql.errors import DeclarationError
from faststream_sql.table.table import QueueTable

MAX_NAME = 64


def quote(name: str) -> str:
    """A MySQL identifier, quoted. Raises DeclarationError for one that MySQL cannot hold."""
    if not name or "\0" in name or len(name) > MAX_NAME or name.endswith(" "):
        msg = f"{name!r} cannot be a name in MySQL: it is empty, holds a NUL, ends in a space, or is longer than {MAX_NAME} characters"
        raise DeclarationError(msg)
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text as SQL. One with a quote or a backslash is written by its bytes, since a backslash means what the session's mode says."""
    return f"CONVERT(X'{text.encode().hex()}' USING utf8mb4)" if "'" in text or "\\" in text else f"'{text}'"


def database_of(table: QueueTable) -> str:
    """The database that the table is in, as SQL."""
    return text_literal(table.schema) if table.schema else "DATABASE()"


def lock_name(table: QueueTable) -> str:
    """The SQL of the name of a row's session lock: `<database>.<key>`, by SHA-256 where that is longer than a name may be.

    Session locks belong to the server as a whole, so their names hold the database. MySQL ignores the case of a name and MariaDB does not:
    rows whose keys differ in nothing else keep each other waiting on MySQL, which is more than was asked for and never less.
    """
    parts = [database_of(table), "'.'"]
    for words, column, _, _ in Formatter().parse(table.advisory_lock or ""):
        if words:
            parts.append(text_literal(words))
        if column is not None:
            parts.append(f"COALESCE(CAST({quote(column)} AS CHAR), '')")
    name = f"CONCAT({', '.join(parts)})"
    # MariaDB counts 192 bytes besides, which 64 characters may exceed
    return f"IF(CHAR_LENGTH({name}) > {MAX_NAME} OR LENGTH({name}) > {3 * MAX_NAME}, SHA2({name}, 256), {name})"
