"""The texts of statements: whole, readable SQL with three kinds of marks, compiled once per table.

`{name}`            an identifier or a piece of SQL that the dialect supplies: `{table}`, `{retry_after}`, `{columns}`
`:name`             a value, bound by the driver. `:now@retry_after` is a moment written as that column stores moments.
`--? role, !role`   at the end of a line: the line stays only where the table has (or, with `!`, lacks) every role named

Other comments (`-- why`) are for the reader of the source and do not reach the server. Identifiers and values are put in one pass, so that
nothing inside a quoted name can be taken for a mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_MARK = re.compile(r"\{(?P<name>\w+)\}|(?<![:\w]):(?P<value>[a-z_][a-z_0-9]*)(?:@(?P<column>[a-z_]+))?")
_CONDITION = re.compile(r"\s*--\?\s*(?P<roles>.+?)\s*$")
_COMMENT = re.compile(r"\s*-- .*$")


class Param(NamedTuple):
    """A bound value: its name, and the role of the time column whose form it is written in (or None)."""

    name: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A text as the driver takes it, with its values in the order in which the driver wants them."""

    text: str
    params: tuple[Param, ...]


def keep_lines(template: str, roles: Collection[str]) -> str:
    """The template without the lines whose condition fails, and without comments."""
    kept: list[str] = []
    for line in template.strip("\n").splitlines():
        condition = _CONDITION.search(line)
        if condition and not _holds(condition["roles"], roles):
            continue
        text = _COMMENT.sub("", _CONDITION.sub("", line)).rstrip()
        if text:
            kept.append(text)
    return "\n".join(kept)


def _holds(condition: str, roles: Collection[str]) -> bool:
    terms = [term.strip() for term in condition.split(",")]
    return all((term[1:] not in roles) if term.startswith("!") else (term in roles) for term in terms)


def compile_text(
    template: str,
    *,
    roles: Collection[str],
    names: Mapping[str, str],
    placeholder: Callable[[int], str],
    reuse: bool,
    escape: Callable[[str], str] = str,
) -> Compiled:
    """Compile a template for one table.

    `names` maps `{name}` marks to SQL. `placeholder` spells the n-th value (from 1). With `reuse` a value that stands twice keeps its first
    number (Postgres, SQLite); without, it is bound again (MySQL). `escape` is applied to all that is not a placeholder (MySQL doubles `%`).
    """
    params: list[Param] = []

    def put(mark: re.Match[str]) -> str:
        if mark["name"] is not None:
            return escape(names[mark["name"]])
        param = Param(mark["value"], mark["column"])
        if reuse and param in params:
            return placeholder(params.index(param) + 1)
        params.append(param)
        return placeholder(len(params))

    text = keep_lines(template, roles)
    pieces: list[str] = []
    end = 0
    for mark in _MARK.finditer(text):
        pieces += (escape(text[end : mark.start()]), put(mark))
        end = mark.end()
    pieces.append(escape(text[end:]))
    return Compiled("".join(pieces), tuple(params))


def listed(names: Sequence[str], *, prefix: str = "") -> str:
    """`a, b, c`, each with the prefix (`t.`)."""
    return ", ".join(prefix + name for name in names)
