"""Security objects become the driver's TLS and login."""

from __future__ import annotations

import ssl

import pytest
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256

from faststream_sql import DeclarationError, SQLBroker
from faststream_sql.broker.security import apply_security
from faststream_sql.drivers.url import parse_url

URL = parse_url("postgresql://db/app")


def test_a_context_is_passed_on() -> None:
    context = ssl.create_default_context()
    assert apply_security(URL, BaseSecurity(ssl_context=context)) == (URL, context)


def test_tls_without_a_context_verifies() -> None:
    _, context = apply_security(URL, BaseSecurity(use_ssl=True))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert apply_security(URL, BaseSecurity()) == (URL, None)


def test_a_login_takes_the_place_of_the_urls() -> None:
    url, _ = apply_security(URL, SASLPlaintext("ann", "s3cr3t"))
    assert url is not None
    assert url.user is not None
    assert url.password is not None
    assert (url.user.reveal(), url.password.reveal()) == ("ann", "s3cr3t")
    broker = SQLBroker("postgresql://db/app", security=SASLPlaintext("ann", "s3cr3t"))
    assert "s3cr3t" not in repr(vars(broker))
    assert "ann" not in str(broker.specification.url)


@pytest.mark.parametrize(
    ("url", "security", "says"),
    [("sqlite:///x.db", BaseSecurity(use_ssl=True), "SQLite"), ("postgresql://db/app", SASLScram256("a", "b"), "another protocol")],
)
def test_what_cannot_be_is_refused(url: str, security: BaseSecurity, says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        SQLBroker(url, security=security)


async def test_a_server_without_tls_is_not_spoken_to_in_the_clear(postgres_url: str) -> None:
    broker = SQLBroker(postgres_url, security=BaseSecurity(use_ssl=True), logger=None)
    with pytest.raises(Exception, match="cannot connect"):
        await broker.connect()
