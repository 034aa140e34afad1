"""`Inbox`: a queue table described by a pydantic model of one of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict, Unpack

from faststream_sql.errors import DeclarationError
from faststream_sql.table._annotations import check_annotation, id_type_of, marker_of, plain_type_of
from faststream_sql.table.roles import Column, Group, Id, Marker, RoleName
from faststream_sql.table.table import IdType, Isolation, QueueTable, check_name


class _TableKeywords(TypedDict, total=False):
    table: str
    schema: str | None
    fifo: bool
    advisory_lock: str | None
    isolation: Isolation | None


class _ClassKeywords(_TableKeywords, ConfigDict, total=False):
    """What a class statement takes: the table's keywords, and pydantic's own."""


class _OwnTable:
    """The table of the class it is read on. A subclass does not inherit it: its fields are others."""

    def __get__(self, instance: object, owner: type[Inbox]) -> QueueTable:
        table = vars(owner).get("__queue_table__")
        if isinstance(table, QueueTable):
            return table
        raise DeclarationError(f'{owner.__name__} describes no table: write `class {owner.__name__}(..., table="<name>")`')


class Inbox(BaseModel):
    """The base of models that describe a queue table: `class MailJob(Inbox, table="mail_jobs")`.

    A field whose annotation holds a role marker plays that role; any other field is a plain column. A column is named as its
    field, or as its marker says. The class keywords besides `table` are `schema`, `fifo`, `advisory_lock` and `isolation` of
    `QueueTable`, and pydantic's own. The class stays a pydantic model of one row.

    A class without `table=` describes no table; its fields serve the classes derived from it.

    Raises:
        DeclarationError: by the class statement, when the description cannot work.
    """

    __queue_table__: ClassVar[QueueTable]

    queue_table: ClassVar[_OwnTable] = _OwnTable()
    """The `QueueTable` that the class describes. Reading it on a class without `table=` raises `DeclarationError`."""

    def __init_subclass__(cls, **keywords: Unpack[_ClassKeywords]) -> None:
        # Tells type checkers what a class statement takes, and stops the keywords here, since `object` takes none.
        # The fields are not known yet: pydantic's hook below does the work.
        super().__init_subclass__()

    @classmethod
    def __pydantic_init_subclass__(
        cls,
        *,
        table: str | None = None,
        schema: str | None = None,
        fifo: bool = False,
        advisory_lock: str | None = None,
        isolation: Isolation | None = None,
        **unknown: object,
    ) -> None:
        super().__pydantic_init_subclass__()
        known = ", ".join(_TableKeywords.__annotations__)
        if unknown:
            raise DeclarationError(
                f"{cls.__name__}: unknown class keyword {', '.join(map(repr, unknown))}: the table's keywords are {known}"
            )
        if table is not None:
            cls.__queue_table__ = _describe(cls, table, schema, fifo, advisory_lock, isolation)
        elif (schema, fifo, advisory_lock, isolation) != (None, False, None, None):
            raise DeclarationError(f'{cls.__name__} has keywords of a table ({known}) and names none: add table="<name>"')


def _describe(
    model: type[Inbox], name: str, schema: str | None, fifo: bool, advisory_lock: str | None, isolation: Isolation | None
) -> QueueTable:
    roles: dict[RoleName, Column] = {}
    plain: list[Column] = []
    players: dict[RoleName, str] = {}
    owners: dict[str, str] = {}
    id_type: IdType = int
    for field_name, field in model.model_fields.items():
        where = f"{model.__name__}.{field_name} (table {name!r})"
        marker = marker_of(where, field)
        column = _column(field_name, marker)
        check_name(f"{where}: the column's name", column.name)
        if column.name in owners:
            raise DeclarationError(
                f"{where}: column {column.name!r} is already that of the field {owners[column.name]!r}: give each field a column of its own"
            )
        owners[column.name] = field_name
        if marker is None or isinstance(marker, Column):
            plain.append(replace(column, type=column.type or plain_type_of(field.annotation)))
            continue
        if marker.role in players:
            raise DeclarationError(
                f"{where}: the role {type(marker).__name__} is already played by the field {players[marker.role]!r}:"
                " mark one of them, and leave the other plain"
            )
        players[marker.role] = field_name
        roles[marker.role] = column
        if isinstance(marker, Id):
            id_type = id_type_of(where, field.annotation)
        elif isinstance(marker, Group):
            fifo = fifo or marker.fifo
        check_annotation(where, marker.role, field.annotation)
    return QueueTable(
        name,
        **roles,
        columns=plain,
        schema=schema,
        fifo=fifo,
        advisory_lock=advisory_lock,
        isolation=isolation,
        id_type=id_type,
        model=model,
    )


def _column(field_name: str, marker: Marker | Column | None) -> Column:
    if marker is None:
        return Column(field_name)
    if isinstance(marker, Column):
        return marker
    name = field_name if marker.column is None else marker.column
    return Column(name, marker.generated if isinstance(marker, Id) else None)
