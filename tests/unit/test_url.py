"""Database URLs: what each part becomes, what is refused, and that nothing of the credentials is ever shown."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import traceback
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faststream_sql.drivers.url import DatabaseURL, Secret, parse_url, redact_url
from faststream_sql.errors import DeclarationError

CANARY = "s3cr3tCANARY"

# Characters that end or split a URL's parts, quote a literal, or break an encoding.
hostile = st.text(st.sampled_from("@/?#:%&=+,;[] '\"\\$*.%4a0€é\n\t~|<>{}"), max_size=8)
unusual = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
canaries = st.builds(lambda before, after: f"{before}{CANARY}{after}", hostile | unusual, hostile | unusual)


def revealed(secret: Secret | None) -> str | None:
    return secret.reveal() if secret else None


def plain_options(url: DatabaseURL) -> dict[str, str]:
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in url.options.items()}


def refusal(text: str) -> DeclarationError:
    with pytest.raises(DeclarationError) as caught:
        parse_url(text)
    return caught.value


def read_or_refused(text: str) -> DatabaseURL | DeclarationError:
    try:
        return parse_url(text)
    except DeclarationError as error:
        return error


def everything_shown(url: DatabaseURL) -> str:
    """Every way in which a value ends up in a log, a document or a message."""
    shown = [repr(url), str(url), f"{url}", f"{url!r:>80}", url.public_url(), repr([url]), repr(url.options), repr(dict(url.options))]
    shown += [repr(getattr(url, field.name)) for field in dataclasses.fields(url) if field.name not in ("database", "hosts", "options")]
    return "\n".join(shown)


class TestServers:
    @pytest.mark.parametrize(
        ("text", "backend", "public"),
        [
            ("postgresql://app:secret@db:5432/app", "postgresql", "postgresql://db:5432/app"),
            ("postgres://app:secret@db/app", "postgresql", "postgresql://db/app"),
            ("PostgreSQL://db/app", "postgresql", "postgresql://db/app"),
            ("postgresql+asyncpg://db/app", "postgresql", "postgresql://db/app"),
            ("postgres+asyncpg://db/app", "postgresql", "postgresql://db/app"),
            ("mysql://u@h/db", "mysql", "mysql://h/db"),
            ("mysql+asyncmy://u@h:3307/db", "mysql", "mysql://h:3307/db"),
            ("mariadb://u@h/db", "mariadb", "mariadb://h/db"),
            ("mariadb+asyncmy://u@h/db", "mariadb", "mariadb://h/db"),
            ("  postgresql://db/app\n", "postgresql", "postgresql://db/app"),
            ("postgresql://u:p@h1:5432,h2:5433/db", "postgresql", "postgresql://h1:5432,h2:5433/db"),
            ("postgresql://[::1]:5432/db", "postgresql", "postgresql://[::1]:5432/db"),
            ("postgresql://u:p@[fe80::1%25eth0]/db", "postgresql", "postgresql://[fe80::1%25eth0]/db"),
            ("postgresql://müller.example/größe", "postgresql", "postgresql://müller.example/größe"),
            ("postgresql://db/a%0Ab", "postgresql", "postgresql://db/a%0Ab"),
            ("postgresql://h/db?sslmode=require", "postgresql", "postgresql://h/db"),
        ],
    )
    def test_backend_and_public_url(self, text: str, backend: str, public: str) -> None:
        url = parse_url(text)
        assert url.backend == backend
        assert url.public_url() == str(url) == public
        assert repr(url) == f"DatabaseURL({public!r})"

    @pytest.mark.parametrize(
        ("text", "hosts"),
        [
            ("postgresql://", ()),
            ("postgresql:///app", ()),
            ("postgresql://app:secret@/app", ()),
            ("postgresql://db", (("db", None),)),
            ("postgresql://u:p@h1,h2:5433/db", (("h1", None), ("h2", 5433))),
            ("postgresql://[::1]:5432,[::2]/db", (("::1", 5432), ("::2", None))),
            ("postgresql:///app?host=/var/run/postgresql", (("/var/run/postgresql", None),)),
            ("postgresql:///app?host=%2Fvar%2Frun&port=5433", (("/var/run", 5433),)),
            ("postgresql://app@%2Fvar%2Frun%2Fpostgresql/app", (("/var/run/postgresql", None),)),
            ("postgresql://%2Fvar%2Frun:5433/app", (("/var/run", 5433),)),
            ("postgresql:///app?host=@abstract", (("@abstract", None),)),
            ("postgresql:///app?host=::1", (("::1", None),)),
            ("postgresql:///app?host=h1:5432&host=h2:5433", (("h1", 5432), ("h2", 5433))),
            ("postgresql:///app?host=h1,h2&port=5432,5433", (("h1", 5432), ("h2", 5433))),
            ("postgresql:///app?host=h1,h2&port=5432", (("h1", 5432), ("h2", 5432))),
            ("postgresql:///app?port=5433", (("localhost", 5433),)),
            ("mysql://root@/db?unix_socket=/run/mysqld.sock", (("/run/mysqld.sock", None),)),
        ],
    )
    def test_hosts(self, text: str, hosts: tuple[tuple[str, int | None], ...]) -> None:
        assert parse_url(text).hosts == hosts

    def test_a_socket_folder_is_not_public(self) -> None:
        assert parse_url("postgresql:///app?host=/home/bob/run&port=5433").public_url() == "postgresql://localhost:5433/app"

    def test_nothing_but_a_scheme_leaves_all_to_the_environment(self) -> None:
        url = parse_url("postgresql://")
        assert url == DatabaseURL("postgresql")
        assert (url.hosts, url.user, url.password, url.database, dict(url.options)) == ((), None, None, None, {})
        assert str(url) == "postgresql://"
        assert url.secrets() == ()

    @pytest.mark.parametrize(
        ("text", "user", "password", "host", "database"),
        [
            ("postgresql://app:p@ss/w#o?rd@db:5432/app?sslmode=require", "app", "p@ss/w#o?rd", "db", "app"),
            ("mysql://u:a@b:c/d@h/db", "u", "a@b:c/d", "h", "db"),
            ("mysql://u:a:b@h/db", "u", "a:b", "h", "db"),
            ("mysql://u:p@@h/db", "u", "p@", "h", "db"),
            ("mysql://u:100%@h/db", "u", "100%", "h", "db"),
            ("mysql://u:%zz%4@h/db", "u", "%zz%4", "h", "db"),
            ("mysql://u:%ff%C3%A9@h/db", "u", "%ff%C3%A9", "h", "db"),
            ("mysql://u:%C3%A9@h/db", "u", "é", "h", "db"),
            ("mysql://u:pa ss\tw@h/db", "u", "pa ss\tw", "h", "db"),
            ("mysql://u:pässwörd€@h/db", "u", "pässwörd€", "h", "db"),
            ("mysql://u:a+b@h/db", "u", "a+b", "h", "db"),
            ("mysql://u:[x]@h/db", "u", "[x]", "h", "db"),
            ("mysql://u:x://y@h/db", "u", "x://y", "h", "db"),
            ("postgresql://u@server:p@h/db", "u@server", "p", "h", "db"),
            ("postgresql://u%40server:p%3A@h/db", "u@server", "p:", "h", "db"),
            ("postgresql://u:@h/db", "u", None, "h", "db"),
            ("postgresql://:p@h/db", None, "p", "h", "db"),
            ("postgresql://app:secret@db:5432/app?application_name=x@y", "app", "secret", "db", "app"),
            ("postgresql://db:5432/app?application_name=x@y", None, None, "db", "app"),
            ("postgresql://db/app?user=a@b&password=c@d/e?f#g", "a@b", "c@d/e?f#g", "db", "app"),
            ("postgresql://app@db/app?password=a%26b+c", "app", "a&b+c", "db", "app"),
            ("mysql://h/db?user=u&passwd=p", "u", "p", "h", "db"),
            ("postgresql://h?user=u&dbname=db", "u", None, "h", "db"),
            ("postgresql://u@h/db?user=u", "u", None, "h", "db"),
            ("postgresql://u:p@h/my%2Fdb%3F", "u", "p", "h", "my/db?"),
        ],
    )
    def test_credentials(self, text: str, user: str | None, password: str | None, host: str, database: str) -> None:
        url = parse_url(text)
        assert (revealed(url.user), revealed(url.password)) == (user, password)
        assert (url.hosts[0][0], url.database) == (host, database)
        assert not {"user", "username", "password", "passwd", "host", "dbname"} & set(url.options)

    def test_options(self) -> None:
        url = parse_url("postgresql://h/db?sslmode=verify-full&application_name=a%20b@c+d&connect_timeout=&options=-c%20x=y&")
        assert dict(url.options) == {
            "sslmode": "verify-full",
            "application_name": "a b@c+d",
            "connect_timeout": "",
            "options": "-c x=y",
        }

    @pytest.mark.parametrize(
        "name",
        [
            "passfile",
            "sslpassword",
            "sslkey",
            "ssl_key",
            "access_token",
            "client_secret",
            "api_key",
            "auth",
            "AUTH_DATA",
            "scram_client_key",
        ],
    )
    def test_secret_options(self, name: str) -> None:
        url = parse_url(f"postgresql://h/db?{name}={CANARY}%2B1&sslmode=require")
        assert url.options[name] == Secret(f"{CANARY}+1")
        assert CANARY not in everything_shown(url)
        assert {f"{CANARY}+1", f"{CANARY}%2B1"} <= set(url.secrets())

    @pytest.mark.parametrize("name", ["keepalives", "require_auth", "auth_plugin", "sslrootcert", "target_session_attrs"])
    def test_plain_options(self, name: str) -> None:
        assert dict(parse_url(f"postgresql://h/db?{name}=x").options) == {name: "x"}


class TestKeywordText:
    def test_fields(self) -> None:
        url = parse_url(r"host=db port = 5433 user=app password='s \'e\\' dbname=app sslmode=require")
        assert (url.backend, url.hosts, url.database) == ("postgresql", (("db", 5433),), "app")
        assert (revealed(url.user), revealed(url.password)) == ("app", r"s 'e" + "\\")
        assert dict(url.options) == {"sslmode": "require"}
        assert str(url) == "postgresql://db:5433/app"

    @pytest.mark.parametrize(
        ("text", "password"),
        [
            ("host=db password=a@b/c?d#e:%41", "a@b/c?d#e:%41"),
            (r"password=a\ b host=db", "a b"),
            ("password='' host=db", None),
            ("host=db password=%00", "%00"),
            ("password=x://y@z host=db", "x://y@z"),
        ],
    )
    def test_password(self, text: str, password: str | None) -> None:
        url = parse_url(text)
        assert revealed(url.password) == password
        assert str(url) == "postgresql://db"

    @pytest.mark.parametrize(
        "text",
        [
            f"host=db password='{CANARY}",
            f"host=db password={CANARY} {CANARY}",
            f"host=db password=x {CANARY}=1",
            f"host=db password={CANARY}\\",
            f"host=db port={CANARY}",
            f"host=db password={CANARY} password=2",
            f"dbname=postgresql://u:{CANARY}@h/db",
        ],
    )
    def test_refused(self, text: str) -> None:
        assert CANARY not in repr(refusal(text))


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "path", "public"),
        [
            ("sqlite://", None, "sqlite://"),
            ("sqlite:///", None, "sqlite://"),
            ("sqlite:///:memory:", None, "sqlite://"),
            ("sqlite+aiosqlite:///mail.db", "mail.db", "sqlite:///mail.db"),
            ("sqlite:///data/mail.db", "data/mail.db", "sqlite:///mail.db"),
            ("sqlite:////home/bob/mail.db", "/home/bob/mail.db", "sqlite:///mail.db"),
            ("sqlite:////home/bob/my%20mail.db", "/home/bob/my mail.db", "sqlite:///my%20mail.db"),
            ("sqlite:////home/bob/a@b#c.db", "/home/bob/a@b#c.db", "sqlite:///a%40b%23c.db"),
            ("sqlite:///C:\\Users\\bob\\mail.db", "C:\\Users\\bob\\mail.db", "sqlite:///mail.db"),
            ("sqlite:///file:mem%3Fkey=1?mode=memory", "file:mem?key=1", "sqlite:///file:mem"),
            ("sqlite:///mail.db?mode=ro&foreign_keys=1", "mail.db", "sqlite:///mail.db"),
        ],
    )
    def test_path(self, text: str, path: str | None, public: str) -> None:
        url = parse_url(text)
        assert (url.backend, url.database, url.hosts) == ("sqlite", path, ())
        assert str(url) == public
        assert repr(url) == f"DatabaseURL({public!r})"

    def test_options(self) -> None:
        assert dict(parse_url("sqlite:///mail.db?mode=ro&cache=shared&database=x&host=y").options) == {
            "mode": "ro",
            "cache": "shared",
            "database": "x",
            "host": "y",
        }

    @pytest.mark.parametrize(
        ("text", "folder"),
        [
            ("sqlite:////home/bob/mail.db", {"/home/bob"}),
            ("sqlite:///data/mail.db", {"data/"}),
            ("sqlite:///C:\\bob\\mail.db", {"C:\\bob"}),
            ("sqlite:///./mail.db", set()),
            ("sqlite:////mail.db", set()),
            ("sqlite:///mail.db", set()),
            ("sqlite://", set()),
        ],
    )
    def test_the_folder_is_secret(self, text: str, folder: set[str]) -> None:
        secrets = parse_url(text).secrets()
        assert folder <= set(secrets)
        assert bool(folder) == bool(secrets)

    @pytest.mark.parametrize("text", ["sqlite://mail.db", "sqlite://home/bob/mail.db", "sqlite:////home/bob/", "sqlite:///mail.db?bob"])
    def test_refused(self, text: str) -> None:
        assert "bob" not in str(refusal(text))


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "is empty"),
            (" \n", "is empty"),
            ("mail.db", "has no scheme"),
            (f"app:{CANARY}@db/app", "has no scheme"),
            (f"app:{CANARY}://@db/app", "has no scheme"),
            (f"oracle://app:{CANARY}@db/app", "unknown database scheme 'oracle'"),
            (f"postgresql+psycopg2://app:{CANARY}@db/app", "driver 'psycopg2' is not supported"),
            (f"postgresql://app:{CANARY}@db:port/app", "a port"),
            (f"postgresql://app:{CANARY}@db:0/app", "a port"),
            (f"postgresql://app:{CANARY}@db:65536/app", "a port"),
            (f"postgresql://app:{CANARY}@h1:1,h2:x/app", "a port"),
            (f"postgresql://app:{CANARY}", "a port"),
            (f"postgresql://app:{CANARY}/app", "a port"),
            (f"postgresql://app:{CANARY}#x%40db", "percent-encode"),
            (f"postgresql://app:{CANARY}@:5432/app", "percent-encode"),
            (f"postgresql://app:{CANARY}@db/app#frag", "percent-encode"),
            (f"postgresql://app:{CANARY}@db/app/more", "percent-encode"),
            (f"postgresql://app:{CANARY}@db/app?flag", "percent-encode"),
            (f"postgresql://{CANARY}%40db/app", "'@' before the host"),
            (f"postgresql://app:1/x?y={CANARY}@db/app", "two ways"),
            (f"postgresql://app:{CANARY}@1/x?y=z@db/app", "two ways"),
            (f"postgresql://db/app@{CANARY}", "percent-encode"),
            (f"postgresql://a:{CANARY}@db/app?user=b", "two different values for the user name"),
            (f"postgresql://a:{CANARY}@db/app?password=b", "two different values for the password"),
            (f"postgresql://a:{CANARY}@db/app?dbname=b", "two different values for the database"),
            (f"postgresql://a:{CANARY}@db/app?sslmode=a&sslmode=b", "an option twice"),
            (f"postgresql://a:{CANARY}@db/app?host=other", "names hosts both"),
            (f"postgresql://a:{CANARY}@db/app?port={CANARY}", "'port'"),
            (f"postgresql://a:{CANARY}@db:1/app?port=2", "'port'"),
            (f"postgresql://a:{CANARY}@h1,h2,h3/app?port=1,2", "'port'"),
            (f"postgresql:///app?host=a:{CANARY}", "a host"),
            (f"postgresql://a:{CANARY}%00@db/app", "NUL"),
            (f"postgresql://a:{CANARY}\0@db/app", "NUL"),
        ],
    )
    def test_message(self, text: str, said: str) -> None:
        error = refusal(text)
        assert said in str(error)
        assert CANARY not in "".join(traceback.format_exception(error)) + repr(error.args)
        assert error.__cause__ is None
        assert error.__context__ is None

    def test_the_frames_of_the_package_hold_no_text(self) -> None:
        """A tracker that records local variables sees only the caller's own."""
        error = refusal(f"postgresql://app:{CANARY}@db:x/app")
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if "faststream_sql" in frame.f_code.co_filename]
        assert frames
        assert all(CANARY not in repr(frame.f_locals) for frame in frames)

    @pytest.mark.parametrize(
        ("text", "way_out"),
        [
            ("postgresql+psycopg2://h/db", "use postgresql:// or postgresql+asyncpg://"),
            ("postgres+psycopg://h/db", "use postgresql:// or postgresql+asyncpg://"),
            ("mysql+aiomysql://h/db", "use mysql:// or mysql+asyncmy://"),
            ("mariadb+pymysql://h/db", "use mariadb:// or mariadb+asyncmy://"),
            ("sqlite+pysqlite:///x.db", "use sqlite:/// or sqlite+aiosqlite:///"),
            ("sqlite+asyncpg:///x.db", "use sqlite:/// or sqlite+aiosqlite:///"),
        ],
    )
    def test_other_drivers_have_a_way_out(self, text: str, way_out: str) -> None:
        assert way_out in str(refusal(text))


class TestSecrecy:
    def test_secret(self) -> None:
        secret = Secret(CANARY)
        assert {repr(secret), str(secret), f"{secret}", f"{secret!s}"} == {"***"}
        assert f"{secret:>5}" == "  ***"
        assert secret.reveal() == CANARY
        assert secret == Secret(CANARY)
        assert secret != Secret("other")
        assert secret != CANARY
        assert len({secret, Secret(CANARY)}) == 1
        assert copy.deepcopy([secret]) == [copy.copy(secret)] == [secret]
        assert not hasattr(secret, "__dict__")

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickle_is_refused(self, protocol: int) -> None:
        url = parse_url(f"postgresql://app:{CANARY}@db/app")
        for value in (Secret(CANARY), url, url.redactor()):
            with pytest.raises(TypeError) as caught:
                pickle.dumps(value, protocol)
            assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("field", ["database", "password", "options"])
    def test_a_url_is_a_value(self, field: str) -> None:
        text = f"postgresql://app:{CANARY}@db/app?sslmode=require"
        url = parse_url(text)
        assert url == parse_url(text)
        assert hash(url) == hash(parse_url(text))
        assert url != parse_url("postgresql://app:other@db/app?sslmode=require")
        assert url == parse_url(f"postgresql://%61pp:{CANARY}@db/app?sslmode=require")
        assert copy.copy(url) is copy.deepcopy(url) is url
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(url, field, "other")

    def test_secrets_come_longest_first_in_every_spelling(self) -> None:
        secrets = parse_url("postgresql://bob:p%40s/s@db/app?passfile=/home/bob/.pgpass").secrets()
        assert list(secrets) == sorted(secrets, key=len, reverse=True)
        assert {"bob", "p@s/s", "p%40s/s", "p%40s%2Fs", "p%40s%2fs", "/home/bob/.pgpass", "%2Fhome%2Fbob%2F.pgpass"} <= set(secrets)
        assert "" not in secrets
        assert "db" not in secrets

    def test_the_redactor_masks_a_user_name_as_a_word(self) -> None:
        redactor = parse_url(f"postgresql://app:{CANARY}@db/app").redactor()
        assert redactor.clean(f'role "app" has no right on app_jobs, {CANARY}') == 'role "***" has no right on app_jobs, ***'

    def test_the_redactor_masks_a_password_that_is_also_the_user_name(self) -> None:
        redactor = parse_url("postgresql://postgres:postgres@db/app").redactor()
        assert redactor.clean("no password postgres1 for PostgreSQL") == "no password *** for PostgreSQL"

    def test_the_redactor_masks_the_folder_of_a_file(self) -> None:
        redactor = parse_url("sqlite:////home/bob/mail.db").redactor()
        assert redactor.clean("cannot open /home/bob/mail.db: database is locked") == "cannot open ***/mail.db: database is locked"

    @given(user=canaries, password=canaries, option=canaries)
    def test_encoded_credentials_round_trip_unseen(self, user: str, password: str, option: str) -> None:
        text = f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@db:5432/app?sslpassword={quote(option, safe='')}"
        url = parse_url(text)
        assert (revealed(url.user), revealed(url.password), plain_options(url)) == (user, password, {"sslpassword": option})
        assert {user, password, option, quote(password, safe="")} <= set(url.secrets())
        assert CANARY not in everything_shown(url) + redact_url(text)

    @given(password=canaries)
    @example(password=f"1/x?user={CANARY}")
    @example(password=f"{CANARY}@1/x?y=z")
    @example(password=f"{CANARY}@?y=")
    def test_raw_passwords_are_read_or_refused_unseen(self, password: str) -> None:
        text = f"postgresql://bob:{password}@db:5432/app?sslmode=require"
        assert CANARY not in redact_url(text)
        outcome = read_or_refused(text)
        if isinstance(outcome, DeclarationError):
            assert CANARY not in "".join(traceback.format_exception(outcome)) + repr(outcome.args)
        else:
            assert CANARY not in everything_shown(outcome)
            assert str(outcome) in ("postgresql://db:5432/app", "postgresql://bob:1/x")

    @given(password=st.text(st.sampled_from("@/#:%é .ab1"), min_size=1))
    def test_raw_passwords_without_a_question_mark_are_always_read(self, password: str) -> None:
        url = parse_url(f"mysql://bob:{password.replace('%', '%25')}@db:3306/app?charset=utf8mb4")
        assert (revealed(url.user), revealed(url.password), str(url)) == ("bob", password, "mysql://db:3306/app")

    @given(password=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1))
    def test_quoted_keyword_passwords_round_trip(self, password: str) -> None:
        escaped = password.replace("\\", "\\\\").replace("'", "\\'")
        url = parse_url(f"host=db password='{escaped}' user=bob")
        assert (revealed(url.password), revealed(url.user), str(url)) == (password, "bob", "postgresql://db")
        assert escaped in url.secrets()

    @given(st.text() | st.text(st.sampled_from("@/?#:%&=,[]'\\ a1")).map("postgresql://".__add__))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        assert isinstance(redact_url(text), str)
        outcome = read_or_refused(text)
        if isinstance(outcome, DeclarationError):
            assert outcome.__context__ is None
        else:
            assert parse_url(outcome.public_url()).backend == outcome.backend

    def test_undecodable_bytes_of_the_environment_do_no_harm(self) -> None:
        url = parse_url("postgresql://bob:\udcff@db/app\udcfe")
        assert "\udcff" in url.secrets()
        assert str(url).isascii()


class TestRedactURL:
    @pytest.mark.parametrize(
        ("text", "public"),
        [
            (f"postgresql://bob:{CANARY}@db:5432/app?password={CANARY}", "postgresql://db:5432/app"),
            (f"postgresql+psycopg2://bob:{CANARY}@db/app", "postgresql+psycopg2://db/app"),
            (f"host=db user=bob password={CANARY}", "postgresql://db"),
            (f"kafka://bob:{CANARY}@h1:9092,h2:9092", "kafka://h1:9092,h2:9092"),
            (f"bob:{CANARY}@host:9092", "host:9092"),
            ("localhost:9092", "localhost:9092"),
            ("h1:9092,h2:9092", "h1:9092,h2:9092"),
            (f"http://bob:{CANARY}@host:8080/a/b?token={CANARY}#{CANARY}", "http://host:8080/a/b"),
            (f"https://host/a/b?{CANARY}#x", "https://host/a/b"),
            (f"https://host/a#{CANARY}", "https://host/a"),
            (f"amqp://bob:p/a@s?{CANARY}@host/vhost", "amqp://host/vhost"),
            ("amqp://[::1]:5672/", "amqp://[::1]:5672"),
            ("sqlite:////home/bob/mail.db", "sqlite:///mail.db"),
            ("sqlite://home/bob/mail.db", "sqlite:///mail.db"),
            ("sqlite+pysqlite:////home/bob/mail.db", "sqlite+pysqlite:///mail.db"),
            ("file:///home/bob/mail.db", "file:///mail.db"),
            (f"postgresql://bob:{CANARY}@db:port/app", "postgresql://"),
            (f"postgresql://bob:1/x?y={CANARY}@db/app", "postgresql://"),
            (f"kafka://bob:{CANARY}", "kafka://"),
            (f"https://host/@{CANARY}/x", "https://"),
            (f"jdbc:sqlserver://db;user=bob;password={CANARY}", ""),
            (f"password {CANARY}", ""),
            ("http://host/%00", "http://"),
            ("", ""),
        ],
    )
    def test_known_texts(self, text: str, public: str) -> None:
        assert redact_url(text) == public

    @given(scheme=st.sampled_from(["", "kafka://", "http://", "postgresql+psycopg2://"]), password=canaries)
    def test_a_password_is_never_shown(self, scheme: str, password: str) -> None:
        assert CANARY not in redact_url(f"{scheme}bob:{password}@host:9092/path?x={quote(password, safe='')}")


@pytest.mark.parametrize("text", ["postgresql://app:x@db/app;password=s3cr3t", "mysql://db/app;password=s3cr3t?charset=utf8mb4"])
def test_options_after_a_semicolon_are_no_part_of_the_name(text: str) -> None:
    assert "s3cr3t" not in str(refusal(text))
    assert "s3cr3t" not in redact_url(text)


def test_a_semicolon_of_the_name_is_percent_encoded() -> None:
    assert parse_url("postgresql://app:x;y@db/a%3Bb").database == "a;b"
