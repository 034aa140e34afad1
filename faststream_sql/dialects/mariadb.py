"""MariaDB: the statements that it shares with MySQL, and an INSERT that returns its ids."""

from __future__ import annotations

from collections.abc import Mapping

from faststream_sql.dialects.mysql import MySQL


class MariaDB(MySQL):
    """MariaDB 10.6 and later."""

    name = "mariadb"
    product = "MariaDB"
    floors: Mapping[str, tuple[int, ...]] = dict.fromkeys(("lease", "row_lock", "advisory", "fifo"), (10, 6))
    returns_inserted = True
