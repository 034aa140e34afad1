"""Texts of drivers: every spelling of a secret is masked, or the whole text is withheld."""

from __future__ import annotations

import html
import json
import pickle
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faststream_sql.drivers.redaction import MASK, WITHHELD, Redactor

CANARY = "s3cr3tCANARY"
AWKWARD = "p@s's/\"w\\o rd\n%é€"

hostile = st.text(st.sampled_from("@/?#:%&=+ '\"\\\n*é€.") | st.characters(codec="utf-8"), max_size=8)
canaries = st.builds(lambda before, after: f"{before}{CANARY}{after}", hostile, hostile)


def lower_hex(text: str) -> str:
    return quote(text, safe="").replace("%C3%A9", "%c3%a9").replace("%2F", "%2f").replace("%5C", "%5c")


SPELLINGS: list[Callable[[str], str]] = [
    str,
    lambda text: quote(text, safe=""),
    quote,
    quote_plus,
    lambda text: repr(text)[1:-1],
    lambda text: repr(f"'\"{text}")[4:-1],
    lambda text: ascii(text)[1:-1],
    lambda text: repr(repr(text)[1:-1])[1:-1],
    lambda text: ascii(repr(text)[1:-1])[1:-1],
    lambda text: repr(text.encode())[2:-1],
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    html.escape,
    lambda text: text.replace("'", "''"),
]


@pytest.mark.parametrize("spell", SPELLINGS)
@pytest.mark.parametrize("secret", [CANARY, AWKWARD, "it's", 'say "x"', "back\\slash", "100% über"])
def test_every_spelling_is_masked(spell: Callable[[str], str], secret: str) -> None:
    assert Redactor([secret]).clean(f"before <{spell(secret)}> after") == f"before <{MASK}> after"


@given(secret=canaries, spell=st.sampled_from(SPELLINGS), before=st.text(max_size=5), after=st.text(max_size=5))
def test_no_text_shows_a_secret(secret: str, spell: Callable[[str], str], before: str, after: str) -> None:
    assert CANARY not in Redactor([secret, before]).clean(before + spell(secret) + after)


def test_lower_case_percent_encoding_is_masked() -> None:
    assert Redactor(["aé/\\B"]).clean("url " + lower_hex("aé/\\B")) == "url ***"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("nothing to hide", "nothing to hide"),
        ("", ""),
        ("postgres", "***"),
        ("cannot reach postgresQL, postgres1", "cannot reach ***, ***"),
        ("postgrespostgres postgres,postgres", "*** ***,***"),
        ("Postgres is another word", "Postgres is another word"),
    ],
)
def test_the_word_around_a_secret_goes_with_it(text: str, cleaned: str) -> None:
    assert Redactor(["postgres"]).clean(text) == cleaned


def test_secrets_that_overlap_leave_no_rest() -> None:
    assert Redactor(["-abcd-", "cd-efgh-"]).clean("x =-abcd-efgh-= y") == "x =***= y"
    assert Redactor(["-aa-aa-"]).clean("=-aa-aa-aa-=") == "=***="


@pytest.mark.parametrize("secret", ["a", "ab", "abc", "*", "%"])
def test_a_short_secret_withholds_the_text(secret: str) -> None:
    redactor = Redactor([secret])
    assert redactor.clean(f"wrong password {secret}!") == WITHHELD
    assert redactor.clean("Unknown") == "Unknown"


def test_a_mask_that_would_complete_a_secret_withholds_the_text() -> None:
    assert Redactor(["hidden", "=***="]).clean("x =hidden= y") == WITHHELD


def test_no_secrets_no_change() -> None:
    assert Redactor(["", ""], names=[""]).clean("text") == Redactor().clean("text") == "text"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ('role "app" does not exist', 'role "***" does not exist'),
        ('relation "app_jobs" of application', 'relation "app_jobs" of application'),
        ("Access denied for user 'app'@'localhost'", "Access denied for user '***'@'localhost'"),
        ("app", "***"),
        ("app@host app", "***@host ***"),
    ],
)
def test_a_name_is_masked_as_a_word(text: str, cleaned: str) -> None:
    assert Redactor(names=["app"]).clean(text) == cleaned


def test_a_name_of_one_letter_or_with_signs_is_masked() -> None:
    assert Redactor(names=["u"]).clean("user u unknown") == "user *** unknown"
    assert Redactor(names=["a@b"]).clean("user a@b, a%40b") == "user ***, ***"


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError(CANARY)


@pytest.mark.parametrize(
    ("error", "cleaned"),
    [
        (ValueError(f"bad port {CANARY}"), "ValueError: bad port ***"),
        (KeyError(CANARY), "KeyError: '***'"),
        (OSError(2, CANARY, f"/home/{CANARY}"), "FileNotFoundError: [Errno 2] ***: '/home/***'"),
        (TimeoutError(), "TimeoutError"),
        (UnprintableError(), "UnprintableError"),
    ],
)
def test_errors(error: Exception, cleaned: str) -> None:
    assert Redactor([CANARY]).clean_error(error) == cleaned


def test_an_error_with_a_short_secret_keeps_its_class() -> None:
    assert Redactor(["pw"]).clean_error(ValueError("bad pw")) == f"ValueError: {WITHHELD}"


def test_a_redactor_shows_nothing_of_itself() -> None:
    redactor = Redactor([CANARY], names=[CANARY])
    assert CANARY not in repr(redactor) + str(redactor)
    assert not hasattr(redactor, "__dict__")
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(redactor)
