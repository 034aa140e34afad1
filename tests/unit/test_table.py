"""Describing a table: what both ways give, and what each of them refuses."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import pytest
from pydantic import AwareDatetime, Field, JsonValue, PositiveInt, ValidationError
from typing_extensions import TypeAliasType

from faststream_sql.errors import DeclarationError
from faststream_sql.table import (
    ROLE_NAMES,
    Attempt,
    Column,
    Group,
    Headers,
    Id,
    Inbox,
    LockedUntil,
    PartitionKey,
    Payload,
    Priority,
    ProcessedAt,
    QueueTable,
    RetryAfter,
)
from faststream_sql.table import table as table_module

JobId = NewType("JobId", int)
AliasedId = TypeAliasType("AliasedId", Annotated[int, Id()])
PlainAlias = TypeAliasType("PlainAlias", UUID)


class MailJob(Inbox, table="mail_jobs"):
    id: Annotated[int, Id()]
    name: Annotated[str, Group()]
    attempt: Annotated[int, Attempt()]
    retry_after: Annotated[datetime, RetryAfter()]
    locked_until: Annotated[datetime | None, LockedUntil()]
    payload: Annotated[bytes, Payload()]
    account: int


def mail_jobs() -> QueueTable:
    return QueueTable(
        "mail_jobs",
        id="id",
        group="name",
        attempt="attempt",
        retry_after="retry_after",
        locked_until="locked_until",
        payload="payload",
        columns=("account",),
    )


@pytest.fixture
def everything_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a release that supports everything: shows that the other checks stand on their own."""
    monkeypatch.setattr(table_module, "NOT_SUPPORTED_YET", ())


def refused(*parts: str) -> Any:
    """A `DeclarationError` whose message holds every one of `parts`."""
    return pytest.raises(DeclarationError, check=lambda error: all(part in str(error) for part in parts))


# ------------------------------------------------------------------------------------------------------- the value


def test_the_attributes_of_a_table_described_by_hand() -> None:
    table = mail_jobs()
    assert table.name == "mail_jobs"
    assert table.id == Column("id", generated=True)
    assert table.group == Column("name", generated=False)
    assert table.attempt == Column("attempt", generated=False)
    assert table.retry_after == Column("retry_after", generated=False)
    assert table.locked_until == Column("locked_until", generated=False)
    assert table.payload == Column("payload", generated=False)
    assert table.columns == (Column("account", generated=False),)
    assert (table.priority, table.partition_key, table.processed_at, table.headers) == (None, None, None, None)
    assert (table.schema, table.fifo, table.advisory_lock, table.isolation) == (None, False, None, None)
    assert table.id_type is int
    assert table.model is None


def test_hand_and_model_give_equal_values() -> None:
    assert MailJob.queue_table == mail_jobs()
    assert hash(MailJob.queue_table) == hash(mail_jobs())
    assert repr(MailJob.queue_table) == repr(mail_jobs())
    assert MailJob.queue_table.model is MailJob
    assert len({MailJob.queue_table, mail_jobs()}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"schema": "app"},
        {"columns": ()},
        {"id": Column("id", generated=False)},
        {"id_type": UUID},
        {"isolation": "read_committed"},
        {"attempt": "tries"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_part_counts_in_equality(change: dict[str, Any]) -> None:
    assert replace(mail_jobs(), **change) != mail_jobs()


def test_a_table_is_pickled_with_its_model() -> None:
    again = pickle.loads(pickle.dumps(MailJob.queue_table))
    assert again == MailJob.queue_table
    assert again.model is MailJob
    assert pickle.loads(pickle.dumps(mail_jobs())) == mail_jobs()


def test_a_table_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        mail_jobs().name = "other"  # type: ignore[misc]


def test_roles_and_columns_come_in_the_order_of_the_roles() -> None:
    table = QueueTable(
        "t",
        payload="p",
        headers="h",
        locked_until="l",
        processed_at="d",
        attempt="a",
        retry_after="r",
        priority="o",
        group="g",
        id="i",
        columns=("y", "x"),
    )
    assert [(role, column.name) for role, column in table.roles().items()] == [
        ("id", "i"),
        ("group", "g"),
        ("priority", "o"),
        ("retry_after", "r"),
        ("attempt", "a"),
        ("processed_at", "d"),
        ("locked_until", "l"),
        ("headers", "h"),
        ("payload", "p"),
    ]
    assert [column.name for column in table.all_columns()] == ["i", "g", "o", "r", "a", "d", "l", "h", "p", "y", "x"]


@pytest.mark.usefixtures("everything_supported")
def test_every_role_reaches_the_attribute_of_its_name() -> None:
    table = QueueTable("t", **{role: f"{role} column" for role in ROLE_NAMES})  # type: ignore[arg-type]
    assert tuple(table.roles()) == ROLE_NAMES
    for role in ROLE_NAMES:
        assert getattr(table, role).name == f"{role} column"
        assert table.roles()[role] == getattr(table, role)


def test_claim_order_and_index_have_what_the_table_has() -> None:
    bare = QueueTable("t", id="i", payload="p")
    assert bare.claim_order == ("id",)
    assert bare.index_columns == (Column("i", generated=True),)
    full = QueueTable("t", id="i", payload="p", group="g", priority="o", retry_after="r", attempt="a")
    assert full.claim_order == ("priority", "retry_after", "id")
    assert [column.name for column in full.index_columns] == ["g", "o", "r", "i"]


def test_the_default_table() -> None:
    assert QueueTable.default() == QueueTable(
        "faststream_queue",
        id="id",
        group="queue",
        priority="priority",
        retry_after="retry_after",
        attempt="attempt",
        locked_until="locked_until",
        headers="headers",
        payload="payload",
    )
    assert QueueTable.default().form == "lease"


@pytest.mark.usefixtures("everything_supported")
def test_the_form_follows_from_the_description() -> None:
    assert QueueTable("t", id="i", payload="p").form == "row_lock"
    assert QueueTable("t", id="i", payload="p", locked_until="l").form == "lease"
    assert QueueTable("t", id="i", payload="p", advisory_lock="jobs-{i}").form == "advisory"


def test_the_qualified_name() -> None:
    assert QueueTable("t", id="i", payload="p").qualified_name == "t"
    assert QueueTable("t", id="i", payload="p", schema="app").qualified_name == "app.t"


@pytest.mark.usefixtures("everything_supported")
def test_the_fields_of_a_key_come_in_its_order_and_braces_are_doubled() -> None:
    table = QueueTable("t", id="i", payload="p", columns=("a.b", "o'x[0]"), advisory_lock="{{k}}-{o'x[0]}-{i}-{a.b}")
    assert table.advisory_fields == ("o'x[0]", "i", "a.b")
    assert QueueTable("t", id="i", payload="p").advisory_fields == ()


@pytest.mark.parametrize(
    ("id_type", "column", "generated"),
    [
        (int, "id", True),
        (UUID, "id", False),
        (str, "id", False),
        (int, Column("id"), True),
        (int, Column("id", generated=False), False),
        (UUID, Column("id", generated=True), True),
    ],
)
def test_who_makes_an_id_follows_from_its_type_unless_said(id_type: type[int | UUID | str], column: str | Column, generated: bool) -> None:
    assert QueueTable("t", id=column, payload="p", id_type=id_type).id == Column("id", generated=generated)


def test_any_other_column_is_generated_where_it_says_so() -> None:
    table = QueueTable("t", id="i", payload="p", attempt=Column("a", generated=True), columns=[Column("c", generated=True), Column("d")])
    assert table.attempt == Column("a", generated=True)
    assert table.columns == (Column("c", generated=True), Column("d", generated=False))


@pytest.mark.parametrize(
    "name", ["select", "Order", "two words", 'a"b', "a`b", "a'b", "a;drop table x", "ünï", "%s", ":x", "\\", " ", "名"]
)
def test_any_name_works(name: str) -> None:
    table = QueueTable(name, id=name, payload="p", schema=name, columns=(name + "2",))
    assert (table.name, table.id.name, table.schema, table.columns[0].name) == (name, name, name, name + "2")


# ----------------------------------------------------------------------------------------------------- refusals by hand


def test_no_id_is_refused() -> None:
    with refused("'mail_jobs'", "no id", "id="):
        QueueTable("mail_jobs", payload="p")


def test_no_payload_is_refused_in_this_release() -> None:
    with refused("'mail_jobs'", "a table without Payload (row mode) is not supported in this release: add a Payload column"):
        QueueTable("mail_jobs", id="id")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": ""}, "the table's name is empty"),
        ({"name": "a\0b"}, "NUL"),
        ({"name": "a\ud800"}, "surrogate"),
        ({"name": 5}, "is 5"),
        ({"schema": ""}, "the schema's name is empty"),
        ({"id": ""}, "id is empty"),
        ({"group": Column("")}, "group is empty"),
        ({"attempt": "a\0"}, "attempt is 'a\\x00'"),
        ({"payload": 5}, "payload is 5"),
        ({"columns": ("x", "")}, "columns is empty"),
    ],
)
def test_what_is_no_name_is_refused(arguments: dict[str, Any], says: str) -> None:
    with refused("table ", says, "give "):
        QueueTable(**{"name": "t", "id": "i", "payload": "p", **arguments})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"group": "i"}, "column 'i' is named twice, by id= and by group="),
        ({"columns": ("p",)}, "column 'p' is named twice, by payload= and by columns="),
        ({"columns": ("x", Column("x"))}, "column 'x' is named twice, by columns= and by columns="),
    ],
)
def test_a_column_named_twice_is_refused(arguments: dict[str, Any], says: str) -> None:
    with refused("table 't'", says, "once"):
        QueueTable("t", id="i", payload="p", **arguments)


@pytest.mark.parametrize("columns", ["account", Column("account")])
def test_one_column_in_place_of_several_is_refused(columns: Any) -> None:
    with refused("table 't'", repr(columns), "write columns=("):
        QueueTable("t", id="i", payload="p", columns=columns)


def test_another_id_type_is_refused() -> None:
    with refused("table 't'", "id_type=<class 'float'>", "uuid.UUID"):
        QueueTable("t", id="i", payload="p", id_type=float)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["group", "headers", "payload"])
def test_a_role_that_publish_writes_cannot_be_generated(role: str) -> None:
    with refused("table 't'", f"{role}=Column(name='x', generated=True)", "leave generated out"):
        QueueTable("t", **{"id": "i", "payload": "p", role: Column("x", generated=True)})  # type: ignore[arg-type]


def test_fifo_without_a_group_is_refused() -> None:
    with refused("table 't'", "fifo=True", "add a Group"):
        QueueTable("t", id="i", payload="p", fifo=True)


def test_fifo_without_an_order_is_refused() -> None:
    with refused("table 't'", "fifo=True needs an order", "UUID", "add a RetryAfter"):
        QueueTable("t", id="i", payload="p", group="g", fifo=True, id_type=UUID)


def test_fifo_beside_an_advisory_lock_is_refused() -> None:
    with refused("table 't'", "fifo=True does not go with advisory_lock='{i}'", "leave one out", "'{g}'"):
        QueueTable("t", id="i", payload="p", group="g", fifo=True, advisory_lock="{i}")


@pytest.mark.usefixtures("everything_supported")
def test_fifo_takes_its_order_from_an_int_id_or_from_retry_after() -> None:
    assert QueueTable("t", id="i", payload="p", group="g", fifo=True).fifo
    assert QueueTable("t", id="i", payload="p", group="g", retry_after="r", fifo=True, id_type=str).fifo


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("jobs-{nope}", "the table has no column 'nope': use 'i', 'g', 'c'"),
        ("jobs-{}", "the table has no column ''"),
        ("{i}-{i}", "names column 'i' twice"),
        ("jobs", "one key would let one row of the whole table run at a time"),
        ("{{i}}", "names no column"),
        ("{i", "badly formed"),
        ("i}", "badly formed"),
        ("{i:>3}", "placeholder 'i' has a format or a conversion: write {i} alone"),
        ("{i!r}", "placeholder 'i' has a format or a conversion"),
        ("{a}", "column 'a' (attempt) cannot be in a key"),
        ("{p}", "column 'p' (payload) cannot be in a key"),
        ("", "advisory_lock is empty"),
        ("a\0{i}", "NUL"),
        (5, "advisory_lock is 5"),
    ],
)
def test_a_key_template_that_cannot_work_is_refused(template: Any, says: str) -> None:
    with refused("table 't'", "advisory_lock", says):
        QueueTable("t", id="i", payload="p", group="g", attempt="a", columns=("c",), advisory_lock=template)


def test_an_advisory_lock_beside_locked_until_is_refused() -> None:
    with refused("table 't'", "advisory_lock='{i}' does not go with LockedUntil", "leave one of them out"):
        QueueTable("t", id="i", payload="p", locked_until="l", advisory_lock="{i}")


def test_an_unknown_isolation_is_refused() -> None:
    with refused("table 't'", "isolation='snapshot'", "'read_committed', 'repeatable_read', 'serializable'"):
        QueueTable("t", id="i", payload="p", isolation="snapshot")  # type: ignore[arg-type]


def test_isolation_above_read_committed_is_refused_with_a_lease_only() -> None:
    assert QueueTable("t", id="i", payload="p", isolation="serializable").isolation == "serializable"
    assert QueueTable("t", id="i", payload="p", locked_until="l", isolation="read_committed").isolation == "read_committed"
    with refused("table 't'", "isolation='serializable' does not go with LockedUntil", "use 'read_committed'"):
        QueueTable("t", id="i", payload="p", locked_until="l", isolation="serializable")


def test_errors_name_the_schema() -> None:
    with refused("table 'app.t'"):
        QueueTable("t", schema="app", payload="p")


# --------------------------------------------------------------------------------------------------------- the model


def test_a_model_stays_a_pydantic_model_of_one_row() -> None:
    now = datetime(2030, 1, 1, tzinfo=timezone.utc)
    row = MailJob(id=1, name="emails", attempt=1, retry_after=now, locked_until=now + timedelta(seconds=30), payload=b"{}", account=7)
    assert MailJob.model_validate(row.model_dump()) == row
    assert row.queue_table is MailJob.queue_table
    assert list(MailJob.model_fields) == ["id", "name", "attempt", "retry_after", "locked_until", "payload", "account"]
    with pytest.raises(ValidationError):
        MailJob.model_validate({"id": 1})


def test_columns_may_be_named_otherwise_than_their_fields() -> None:
    class Job(Inbox, table="jobs"):
        id: Annotated[int, Id(column="job_id", generated=False)]
        body: Annotated[str, Payload(column="Body Text")]
        made: Annotated[datetime, Column("made at", generated=True)]
        plain: int

    assert Job.queue_table == QueueTable(
        "jobs",
        id=Column("job_id", generated=False),
        payload="Body Text",
        columns=(Column("made at", generated=True), "plain"),
    )


def test_class_keywords_are_the_tables_beside_pydantics_own() -> None:
    class Job(Inbox, table="jobs", schema="app", isolation="serializable", extra="forbid"):
        id: Annotated[int, Id()]
        body: Annotated[bytes, Payload()]

    assert Job.queue_table == QueueTable("jobs", id="id", payload="body", schema="app", isolation="serializable")
    assert Job.model_config["extra"] == "forbid"


@pytest.mark.usefixtures("everything_supported")
def test_fifo_and_advisory_lock_by_class_keyword() -> None:
    class Ordered(Inbox, table="jobs", fifo=True):
        id: Annotated[int, Id()]
        name: Annotated[str, Group()]
        key: Annotated[str | None, PartitionKey()]
        body: Annotated[bytes, Payload()]

    class Locked(Inbox, table="jobs", advisory_lock="jobs-{id}"):
        id: Annotated[int, Id()]
        body: Annotated[bytes, Payload()]

    assert Ordered.queue_table == QueueTable("jobs", id="id", group="name", partition_key="key", payload="body", fifo=True)
    assert Locked.queue_table == QueueTable("jobs", id="id", payload="body", advisory_lock="jobs-{id}")


@pytest.mark.usefixtures("everything_supported")
def test_a_group_marked_fifo_sets_fifo() -> None:
    class Job(Inbox, table="jobs"):
        id: Annotated[int, Id()]
        name: Annotated[str, Group(fifo=True)]
        body: Annotated[bytes, Payload()]

    assert Job.queue_table.fifo


@pytest.mark.parametrize(
    ("annotation", "id_type", "generated"),
    [(int, int, True), (UUID, UUID, False), (str, str, False), (PositiveInt, int, True), (JobId, int, True), (PlainAlias, UUID, False)],
)
def test_the_type_of_an_id_is_its_annotation(annotation: Any, id_type: type, generated: bool) -> None:
    class Job(Inbox, table="jobs"):
        id: Annotated[annotation, Id()]
        body: Annotated[bytes, Payload()]

    assert Job.queue_table.id_type is id_type
    assert Job.queue_table.id.generated is generated


def test_fields_of_a_base_without_a_table_serve_its_subclasses() -> None:
    class Base(Inbox):
        id: Annotated[int, Id()]
        body: Annotated[bytes, Payload()]

    class First(Base, table="first"):
        name: Annotated[str, Group()]

    class Second(Base, table="second"):
        pass

    class Third(First):
        more: int

    assert First.queue_table == QueueTable("first", id="id", group="name", payload="body")
    assert Second.queue_table == QueueTable("second", id="id", payload="body")
    for without in (Base, Inbox, Third):
        with refused(without.__name__, "table="):
            _ = without.queue_table


@pytest.mark.parametrize(
    ("annotation", "marker"),
    [
        (str, Group()),
        (Literal["a", "b"], Group()),
        (PositiveInt, Priority()),
        (AwareDatetime, RetryAfter()),
        (datetime, LockedUntil()),
        (datetime | None, ProcessedAt()),
        (dict[str, str], Headers()),
        (str | None, Headers()),
        (Any, Headers()),
        (JsonValue, Payload()),
        (dict[str, Any], Payload()),
        (list[int], Payload()),
        (str, Payload()),
        (Any, Payload()),
        (MailJob, Payload()),
    ],
)
def test_what_the_values_of_a_role_may_be(annotation: Any, marker: Any) -> None:
    class Job(Inbox, table="jobs"):
        id: Annotated[int, Id()]
        other: Annotated[annotation, marker]
        body: Annotated[bytes, Payload() if marker != Payload() else Column("body")]

    assert Job.queue_table.roles()[marker.role].name == "other"


def test_a_marker_works_beside_a_field_and_a_default() -> None:
    class Job(Inbox, table="jobs"):
        id: Annotated[int, Field(ge=0), Id()] = 0
        body: Annotated[bytes, Payload()] = Field(default=b"", alias="payload")

    assert Job.queue_table == QueueTable("jobs", id="id", payload="body")


# --------------------------------------------------------------------------------------------------- refusals by class


@pytest.mark.parametrize(
    ("annotation", "marker", "says"),
    [
        (bytes, Group(), "bytes cannot be the group: annotate it as a str"),
        (str, Priority(), "str cannot be the priority: annotate it as an int"),
        (float, Attempt(), "float cannot be the attempt: annotate it as an int"),
        (bool, Attempt(), "bool cannot be the attempt"),
        (int, RetryAfter(), "int cannot be the retry_after: annotate it as a datetime"),
        (timedelta | None, LockedUntil(), "cannot be the locked_until: annotate it as a datetime"),
        (str, ProcessedAt(), "str cannot be the processed_at"),
        (int, Headers(), "int cannot be the headers: annotate it as a dict"),
        (datetime, Payload(), "datetime cannot be the payload: annotate it as bytes"),
        (str | None, Group(), "a NULL group would never be claimed: drop `| None`"),
        (int | None, Priority(), "a NULL priority would never be claimed"),
        (datetime | None, RetryAfter(), "a NULL retry_after would never be claimed"),
        (int | None, Attempt(), "a NULL attempt would never be claimed"),
    ],
)
def test_an_annotation_that_a_role_cannot_have_is_refused(annotation: Any, marker: Any, says: str) -> None:
    with refused("Job.other (table 'jobs')", says):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id()]
            other: Annotated[annotation, marker]


@pytest.mark.parametrize("annotation", [float, bool, bytes, int | None, int | str, Any])
def test_an_id_of_another_type_is_refused(annotation: Any) -> None:
    with refused("Job.id (table 'jobs')", "an Id is an int, a UUID or a str"):

        class Job(Inbox, table="jobs"):
            id: Annotated[annotation, Id()]


def test_a_model_without_an_id_is_refused() -> None:
    with refused("Job (table 'jobs')", "no id", "`Id()`"):

        class Job(Inbox, table="jobs"):
            body: Annotated[bytes, Payload()]


def test_a_model_without_a_payload_is_refused_in_this_release() -> None:
    with refused("Job (table 'jobs')", "row mode", "add a Payload column"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id()]


def test_two_fields_of_one_role_are_refused() -> None:
    with refused("Job.second", "Payload", "'first'", "mark one of them"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id()]
            first: Annotated[bytes, Payload()]
            second: Annotated[bytes, Payload()]


@pytest.mark.parametrize("second", [Group(), Column("x")])
def test_two_markers_on_one_field_are_refused(second: Any) -> None:
    with refused("Job.id", f"Id and {type(second).__name__}", "keep one"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id(), second]


@pytest.mark.parametrize("marker", [Payload(column="account"), Column("account")])
def test_two_fields_of_one_column_are_refused(marker: Any) -> None:
    with refused("Job.body", "column 'account' is already that of the field 'account'", "a column of its own"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id()]
            account: int
            body: Annotated[bytes, marker]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_column_of_a_model_that_is_no_name_is_refused(name: str) -> None:
    with refused("Job.id (table 'jobs')", "give the name"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id(column=name)]


@pytest.mark.parametrize("marker", [Id, Column])
def test_a_marker_that_was_not_called_is_refused(marker: Any) -> None:
    with refused("Job.id", f"the class {marker.__name__}: call it"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, marker]


def test_a_marker_inside_the_type_is_refused() -> None:
    with refused("Job.locked", "LockedUntil marks a part of the type", "Annotated[<type>, LockedUntil(...)]"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id()]
            locked: Annotated[datetime, LockedUntil()] | None


def test_a_marker_inside_an_alias_is_refused() -> None:
    with refused("Job.id", "Id marks a part of the type"):

        class Job(Inbox, table="jobs"):
            id: AliasedId
            body: Annotated[JsonValue, Payload()]


def test_an_annotation_defined_below_the_class_is_refused() -> None:
    with refused("Job.body", "Later", "define it above the class"):

        class Job(Inbox, table="jobs"):
            id: Annotated[int, Id()]
            body: Annotated[Later, Payload()]  # type: ignore[name-defined]  # noqa: F821


def test_an_unknown_class_keyword_is_refused() -> None:
    with refused("Job", "'tabel'", "table, schema, fifo, advisory_lock, isolation"):

        class Job(Inbox, tabel="jobs"):
            id: Annotated[int, Id()]


@pytest.mark.parametrize("keywords", [{"schema": "app"}, {"fifo": True}, {"advisory_lock": "{id}"}, {"isolation": "serializable"}])
def test_keywords_of_a_table_without_its_name_are_refused(keywords: dict[str, Any]) -> None:
    with refused("Job", next(iter(keywords)), 'add table="<name>"'):

        class Job(Inbox, **keywords):
            id: Annotated[int, Id()]


def test_what_a_table_refuses_names_the_class() -> None:
    with refused("Job (table 'app.jobs')", "advisory_lock='{nope}'"):

        class Job(Inbox, table="jobs", schema="app", advisory_lock="{nope}"):
            id: Annotated[int, Id()]
            body: Annotated[bytes, Payload()]
