"""Where a service's pool leads, as far as it may be shown: product, hosts, ports and the database's name, and nothing else."""

from __future__ import annotations

from typing import Any

from faststream_sql.drivers.url import Backend, DatabaseURL, parse_url
from faststream_sql.errors import SQLBrokerError

_PRODUCTS: dict[str, Backend] = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mariadb", "sqlite": "sqlite"}


def address_of(pool: Any) -> DatabaseURL | None:
    """The address of an `asyncpg.Pool`, an asyncmy pool or an `AsyncEngine`; None for anything else."""
    match type(pool).__module__.partition(".")[0]:
        case "asyncpg":
            return _of_asyncpg(pool)
        case "asyncmy":
            return _address("mysql", pool._conn_kwargs, "db")
        case "sqlalchemy":
            product = _PRODUCTS.get(pool.url.get_backend_name())
            if product is None:
                return None
            return _address(product, {"host": pool.url.host, "port": pool.url.port, "database": pool.url.database})
        case _:
            return None


def _of_asyncpg(pool: Any) -> DatabaseURL:
    arguments = dict(pool._connect_kwargs)
    dsn = arguments.pop("dsn", None) or (pool._connect_args[0] if pool._connect_args else None)
    if isinstance(dsn, str):
        try:
            found = parse_url(dsn)
        except SQLBrokerError:
            return DatabaseURL("postgresql")
        if found.hosts or found.database:
            return DatabaseURL("postgresql", found.hosts, database=found.database)
    return _address("postgresql", arguments)


def _address(product: Backend, arguments: dict[str, Any], other_name: str = "database") -> DatabaseURL:
    hosts = arguments.get("host") or arguments.get("unix_socket")
    port = arguments.get("port")
    names = [hosts] if isinstance(hosts, str) else [str(host) for host in hosts or ()]
    ports = list(port) if isinstance(port, (list, tuple)) else [port] * len(names)
    database = arguments.get("database") or arguments.get(other_name)
    pairs = tuple((name, int(number) if number else None) for name, number in zip(names, ports, strict=False))
    return DatabaseURL(product, pairs, database=database if isinstance(database, str) else None)
