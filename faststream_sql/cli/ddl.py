"""`ddl`: tables and indexes to paste into a migration."""

from __future__ import annotations

from enum import Enum

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.cli.output import DONE, CommandError, say
from faststream_sql.dialects import dialect_for


class DialectName(str, Enum):
    """The databases, as they are called on the command line."""

    POSTGRES = "postgres"
    MYSQL = "mysql"
    MARIADB = "mariadb"
    SQLITE = "sqlite"

    @property
    def product(self) -> str:
        """The same as the dialects call it."""
        return "postgresql" if self is DialectName.POSTGRES else self.value


def print_ddl(broker: SQLBroker, dialect: DialectName | None) -> int:
    """Print the statements that make the broker's tables, on its own database unless another is named."""
    product = dialect.product if dialect else broker.source.protocol
    tables = broker.tables()
    if not tables:
        msg = "no name leads into a table"
        raise CommandError(msg)
    for table in tables:
        for text in dialect_for(product).ddl(table):
            say(f"{text};\n")
    return DONE
