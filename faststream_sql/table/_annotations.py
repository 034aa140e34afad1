"""What the annotation of a field says: its marker, and the classes of its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Final, ForwardRef, Literal, NewType, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from faststream_sql.errors import DeclarationError
from faststream_sql.table.roles import PLAIN_TYPES, Column, Marker, RoleName
from faststream_sql.table.table import ID_TYPES, IdType

_MARKERS: Final[tuple[type[Marker | Column], ...]] = (*get_args(Marker), Column)

_BYTES: Final = (bytes, bytearray, memoryview)

# What the value of a role is, in words and in classes. A partition key may be anything that the column holds.
_VALUES: Final[Mapping[RoleName, tuple[str, tuple[type, ...]]]] = {
    "group": ("a str", (str,)),
    "priority": ("an int", (int,)),
    "retry_after": ("a datetime", (datetime,)),
    "attempt": ("an int", (int,)),
    "processed_at": ("a datetime or datetime | None", (datetime,)),
    "locked_until": ("a datetime or datetime | None", (datetime,)),
    "headers": ("a dict, a str, bytes or Any", (Mapping, str, *_BYTES)),
    "payload": ("bytes, a str, a dict, a list or Any", (Mapping, list, str, *_BYTES)),
}

# NULL has no place in the order of a claim and equals no group, so such a row would never be claimed.
_NEVER_NULL: Final[tuple[RoleName, ...]] = ("id", "group", "priority", "retry_after", "attempt")


def marker_of(where: str, field: FieldInfo) -> Marker | Column | None:
    """The marker of a field, or None for a plain column of the field's name.

    Raises:
        DeclarationError: several markers, one in the wrong place, or an annotation that could not be read.
    """
    unresolved = _unresolved(field.annotation)
    if unresolved is not None:
        raise DeclarationError(f"{where}: the annotation {unresolved!r} names something not defined yet: define it above the class")
    found = [item for item in field.metadata if _is_marker(item)]
    if len(found) > 1:
        raise DeclarationError(
            f"{where} has the markers {' and '.join(type(item).__name__ for item in found)}: keep one, since a column plays one role;"
            " a role takes the name of its column as column="
        )
    for item in (*field.metadata, *_parts(field.annotation)):
        if isinstance(item, type) and item in _MARKERS:
            raise DeclarationError(f"{where} is marked with the class {item.__name__}: call it, {item.__name__}(...)")
    for item in _parts(field.annotation):
        if isinstance(item, _MARKERS):
            name = type(item).__name__
            raise DeclarationError(f"{where}: {name} marks a part of the type: write it around the whole, Annotated[<type>, {name}(...)]")
    return found[0] if found else None


def id_type_of(where: str, annotation: object) -> IdType:
    """The type of an id.

    Raises:
        DeclarationError: not an int, a UUID or a str.
    """
    classes = set(_classes(annotation))
    for id_type in ID_TYPES:
        if classes == {id_type}:
            return id_type
    raise DeclarationError(f"{where}: {_shown(annotation)} cannot name a row: an Id is an int, a UUID or a str, and never None")


def plain_type_of(annotation: object) -> type | None:
    """The type of a plain column's values, one of `PLAIN_TYPES`; None where the annotation names no such type, or several."""
    classes = {found for found in _classes(annotation) if found is not NoneType}
    if len(classes) != 1:
        return None
    (found,) = classes
    if issubclass(found, (Mapping, list, BaseModel)):
        return dict
    return next((kind for kind in PLAIN_TYPES if issubclass(found, kind)), None)


def check_annotation(where: str, role: RoleName, annotation: object) -> None:
    """Refuse an annotation that the values of a role cannot have. What cannot be told is let through.

    Raises:
        DeclarationError: the annotation takes None where NULL would lose the row, or takes other values only.
    """
    classes = set(_classes(annotation))
    if role in _NEVER_NULL and NoneType in classes:
        raise DeclarationError(
            f"{where}: {_shown(annotation)} takes None, and a row with a NULL {role} would never be claimed:"
            " drop `| None`, and make the column NOT NULL"
        )
    if role not in _VALUES:
        return
    wanted, allowed = _VALUES[role]
    classes.discard(NoneType)
    if classes and not any(_fits(cls, allowed) for cls in classes):
        raise DeclarationError(f"{where}: {_shown(annotation)} cannot be the {role}: annotate it as {wanted}")


def _unresolved(annotation: object) -> str | None:
    # Pydantic would look the name up again at the model's first use. Its markers have to be known now.
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else None


def _is_marker(item: object) -> bool:
    return isinstance(item, _MARKERS)


def _fits(cls: type, allowed: tuple[type, ...]) -> bool:
    # A type with a schema of its own (pydantic's AwareDatetime is one) may stand for any value. A bool is an int to Python alone.
    return hasattr(cls, "__get_pydantic_core_schema__") or (issubclass(cls, allowed) and cls is not bool)


def _classes(annotation: object) -> Iterator[type]:
    """The classes that the values of an annotation have; nothing for a part of it that does not tell."""
    origin = get_origin(annotation)
    if annotation is None:
        yield NoneType
    elif isinstance(annotation, NewType):
        yield from _classes(annotation.__supertype__)
    elif hasattr(annotation, "__value__"):  # a `type` alias: several classes make them, by version
        yield from _classes(annotation.__value__)
    elif origin is Annotated:
        yield from _classes(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _classes(member)
    elif origin is Literal:
        yield from (type(value) for value in get_args(annotation))
    elif annotation not in (Any, object):  # Any is a class since Python 3.11
        cls = annotation if origin is None else origin
        if isinstance(cls, type):
            yield cls


def _parts(annotation: object) -> Iterator[object]:
    """Everything that an annotation is made of, through aliases, each once: an alias may hold itself."""
    waiting: list[object] = [annotation]
    aliases: list[object] = []
    while waiting:
        part = waiting.pop()
        if part is not annotation:
            yield part
        waiting.extend(get_args(part))
        if hasattr(part, "__value__") and not any(part is alias for alias in aliases):
            aliases.append(part)
            waiting.append(part.__value__)


def _shown(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) and get_origin(annotation) is None else repr(annotation)
