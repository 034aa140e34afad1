"""Credentials kept out of sight: `Secret` holds one, and a `Redactor` takes them out of texts that others wrote.

Our own texts are built from what may be shown and need no cleaning. A driver's text is another matter: a server repeats the
user name, a client library may repeat the password, plainly or escaped.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn
from urllib.parse import quote, quote_plus

MASK: Final = "***"
"""What stands in the place of a secret."""

WITHHELD: Final = "(text withheld: it may hold a part of the credentials)"
"""What stands in the place of a whole text that cannot be cleaned safely."""

# A shorter secret occurs by chance in most texts. Masking each place would spell it out, since the gaps in known words show it.
_SHORTEST_MASKED: Final = 4


@contextmanager
def alone() -> Iterator[None]:
    """An error raised in here brings no other one along: a driver's may hold a credential, in its text or in the locals of its frames.

    To be entered outside of an `except` block. That alone is not enough on a task that runs in Python itself (as under some runners on
    3.10): there every exception has the one that woke the task for its context.
    """
    try:
        yield
    except Exception as error:
        error.__context__ = None
        raise


def _escaped(text: str, escape: Callable[[object], str], quotes: str) -> str:
    """`text` as it stands inside a literal that `escape` (`repr` or `ascii`) writes, where `quotes` have a backslash too."""
    return "".join(f"\\{c}" if c in quotes else c if c in "'\"" else escape(c)[1:-1] for c in text)


def _literals(text: str) -> set[str]:
    """`text` as any Python literal may hold it: which quotes are escaped depends on the text around it."""
    return {_escaped(text, escape, quotes) for escape in (repr, ascii) for quotes in ("", "'", '"', "'\"")}


def _lower_hex(encoded: str) -> str:
    """The same percent-encoding with lower-case digits; letters of the text itself stay as they are."""
    head, *rest = encoded.split("%")
    return head + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in rest)


def percent_spellings(secret: str) -> frozenset[str]:
    """The secret and every usual percent-encoding of it. Raises nothing, whatever the characters."""
    # Lone surrogates come from undecodable bytes in the environment; an encoding error would carry the secret along.
    encoded = {
        quote(secret, safe="", errors="surrogatepass"),
        quote(secret, errors="surrogatepass"),
        quote_plus(secret, errors="surrogatepass"),
    }
    return frozenset({secret} | encoded | {_lower_hex(text) for text in encoded})


def _spellings(secret: str) -> frozenset[str]:
    """Every form in which a driver's text may hold the secret: plain, percent-encoded, or escaped inside a literal."""
    literals = _literals(secret)
    nested = {outer for text in literals for outer in _literals(text)}  # the repr of an error that quotes a repr
    in_bytes = repr(secret.encode("utf-8", "surrogatepass"))[2:-1]
    other = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], html.escape(secret), secret.replace("'", "''")}
    return percent_spellings(secret) | literals | nested | other | {in_bytes, in_bytes.replace("\\'", "'")}


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _places(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Where `wanted` stands in `text`, places that overlap too."""
    start = text.find(wanted)
    while start >= 0:
        yield start, start + len(wanted)
        start = text.find(wanted, start + 1)


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    """The place grown to the whole words at its edges: `***QL` would tell that the secret is `postgres`."""
    if _is_word(text[start]):
        while start > 0 and _is_word(text[start - 1]):
            start -= 1
    if _is_word(text[end - 1]):
        while end < len(text) and _is_word(text[end]):
            end += 1
    return start, end


def _masked(text: str, places: Iterable[tuple[int, int]]) -> str:
    """`text` with the mask in the place of each; places that touch or overlap are one."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(places):
        if start > done or not pieces:
            pieces += [text[done:start], MASK]
        done = max(done, end)
    return "".join([*pieces, text[done:]])


class Secret:
    """A text that is shown only on request: `repr`, `str` and `format` give `***`. Immutable, hashable, never pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the driver and nobody else."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        """Raises `TypeError`: a pickle would hold the text in the clear."""
        raise TypeError("a Secret is not pickled")


class Redactor:
    """Cleans texts of a fixed set of secrets. Immutable, safe to share; its `repr` holds none of them.

    `secrets` are masked wherever they occur, inside words too, along with the word around them. `names` (user names such
    as `app` or `root`) are masked where they stand as a whole word, so that `relation "app_jobs"` stays readable.
    """

    __slots__ = ("_names", "_secrets", "_short")

    def __init__(self, secrets: Iterable[str] = (), *, names: Iterable[str] = ()) -> None:
        spelled = {form for secret in secrets if secret for form in _spellings(secret)}
        self._short = frozenset(form for form in spelled if len(form) < _SHORTEST_MASKED)
        self._secrets = tuple(sorted(spelled - self._short))
        self._names = tuple(sorted({form for name in names if name for form in _spellings(name)}))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        """Raises `TypeError`: a pickle would hold the secrets in the clear."""
        raise TypeError("a Redactor is not pickled: it holds credentials")

    def clean(self, text: str) -> str:
        """`text` with `***` for each secret, or a fixed sentence where a secret is too short to be masked safely. Raises nothing."""
        if any(form in text for form in self._short):
            return WITHHELD
        places = {_widened(text, *place) for form in self._secrets for place in _places(text, form)}
        places |= {place for form in self._names for place in _places(text, form) if _widened(text, *place) == place}
        cleaned = _masked(text, places)
        # A mask may complete a secret that itself holds asterisks; then nothing of the text is shown.
        return WITHHELD if any(form in cleaned for form in (*self._secrets, *self._short)) else cleaned

    def clean_error(self, error: BaseException) -> str:
        """The error as `ClassName: cleaned text`, or the class name alone where it has no text. Its causes are left out. Raises nothing."""
        text = ""
        with suppress(Exception):  # an error that cannot even be printed must not hide what failed
            text = str(error)
        name = type(error).__name__
        return f"{name}: {self.clean(text)}" if text else name
