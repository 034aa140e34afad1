"""The file that `prepare` writes and `check --offline` reads: JSON that a person can read in a diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from faststream_sql.cli.output import CommandError
from faststream_sql.dialects import DIALECTS
from faststream_sql.drivers.base import Server
from faststream_sql.engine.schema import Schema, TableFacts, TableName
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts

DEFAULT_FILE: Final = Path("faststream-sql.json")
_FORMAT: Final = 1


def write_file(schema: Schema, file: Path) -> None:
    """Write the schema, in an order of its own, so that it changes only with the schema. Raises CommandError."""
    tables = [
        {
            "schema": name.schema,
            "name": name.name,
            "columns": [fact._asdict() for fact in facts.columns],
            "indexes": [fact._asdict() for fact in sorted(facts.indexes)],
        }
        for name, facts in sorted(schema.tables.items(), key=lambda item: (item[0].schema or "", item[0].name))
    ]
    server = {"product": schema.server.product, "version": list(schema.server.version)}
    text = json.dumps({"format": _FORMAT, "server": server, "tables": tables}, indent=2, ensure_ascii=False)
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        msg = f"{file} cannot be written: {error.strerror}"
        raise CommandError(msg) from error


def read_file(file: Path) -> Schema:
    """Read what `write_file` wrote. Raises CommandError for a file that is not there or is none of ours."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"{file} cannot be read ({error.strerror}): write it with `faststream-sql prepare`, or name it with --file"
        raise CommandError(msg) from error
    try:
        return _schema(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{file} is no schema that `faststream-sql prepare` of this release wrote: write it anew"
        raise CommandError(msg) from error


def _schema(content: Any) -> Schema:
    if content["format"] != _FORMAT or content["server"]["product"] not in DIALECTS:
        msg = "of another release"
        raise ValueError(msg)
    version = tuple(int(part) for part in content["server"]["version"])
    tables = {
        TableName(table["schema"], table["name"]): TableFacts(
            tuple(ColumnFacts(**column) for column in table["columns"]),
            tuple(IndexFacts(index["name"], tuple(index["columns"])) for index in table["indexes"]),
        )
        for table in content["tables"]
    }
    return Schema(Server(content["server"]["product"], version, ".".join(map(str, version))), tables)
