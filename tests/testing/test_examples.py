"""The examples, as their services' own tests would have them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from faststream import TestApp

from examples import mailer, reports
from faststream_sql.testing import TestSQLBroker


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'service.db'}"


async def test_letters_and_what_becomes_of_them(url: str) -> None:
    provider = mailer.Provider()
    app = mailer.service(url, provider=provider, backoff=timedelta(minutes=1))
    test = TestSQLBroker(app.brokers[0], connect_only=True)
    async with test as br, TestApp(app):
        await br.publish(mailer.Mail(to="nobody@example.org"), "emails")
        assert test.rows("emails") == []
        await br.publish(mailer.Mail(to="ann@example.org"), "emails")
        assert provider.sent == ["ann@example.org"]
        await br.publish(mailer.Mail(to="flaky@example.org"), "emails")
        assert provider.sent == ["ann@example.org"]
        assert await test.advance(0) == 2
        assert provider.sent == ["ann@example.org", "flaky@example.org"]
        await br.publish(mailer.Mail(to="crowd@example.org"), "emails")
        assert await test.advance(timedelta(minutes=1 + 2 + 3)) == 3
        assert [row["attempt"] for row in test.rows("emails")] == [5]
        assert await test.advance(timedelta(minutes=4)) == 2  # the last one, and the review of the dead letter
        assert test.rows() == []


async def test_a_report_is_rendered_once_and_rows_of_a_crashed_process_return(url: str) -> None:
    app = reports.service(url)
    test = TestSQLBroker(app.brokers[0], connect_only=True)
    async with test as br, TestApp(app):
        before = test.clock.now()
        await br.publish(reports.Report(number=1), "reports")
        assert test.clock.now() == before + timedelta(minutes=5)
        now = test.clock.now()
        test.insert(reports.RenderReport, payload=reports.Report(number=2), attempt=2, locked_until=now - timedelta(seconds=1))
        test.insert(reports.RenderReport, payload=reports.Report(number=3), attempt=2, locked_until=now + timedelta(hours=1))
        assert await test.advance(timedelta(minutes=10)) == 1
        assert [row["payload"] for row in test.rows("reports")] == [b'{"number":3}']
