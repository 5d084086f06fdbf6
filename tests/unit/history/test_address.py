import pytest

from flashcore_ci.cli.history import DEFAULT
from flashcore_ci.history.address import PASSWORD, parse, shown
from flashcore_ci.model.errors import UsageError

SECRET = "hunter2"
PASSWORDS = [
    f"postgresql://me:{SECRET}@host/db",
    f"postgresql://me:@host/db?password={SECRET}",
    f"postgresql://me@host/db?password={SECRET}",
    f"postgresql://me@host/db?PASSWORD={SECRET}",
    f"postgresql://me@host/db?pass%77ord={SECRET}",
    f"postgresql://me@host/db?sslpassword={SECRET}",
    f"postgresql://me@host/db?passfile={SECRET}",
    f"postgresql://me@host/db?service={SECRET}",
    f"postgresql://me@host/db?options={SECRET}",
    f"postgresql://me@host/password%3D{SECRET}",
    f"postgresql://me:{SECRET}@host:port/db",
    f"postgresql://me:{SECRET}@host",
    f"postgresql+asyncpg://me:{SECRET}@host/db",
    f"mysql://me:{SECRET}@host/db",
    f"sqlite://me:{SECRET}@host/db",
    f"sqlite:///x.db?password={SECRET}",
    f"host=h password={SECRET}",
]
OTHERS = [
    "",
    "x",
    "runs/latest",
    "sqlite://",
    "sqlite:///:memory:",
    "sqlite:///file:x?mode=memory&uri=true",
    "sqlite+pysqlite:///x",
    "//",
    "postgresql://me@host:99999/db",
    "postgresql://me@host/db?port=99999",
    "postgresql://me@host/db?port=abc",
    "postgresql://me@host/db?host=a,b&port=1,0",
    "postgresql://me@host/db?sslmode=bogus",
]


@pytest.mark.parametrize("text", [*PASSWORDS, *OTHERS])
def test_an_address_with_a_password_or_of_another_kind_is_refused_and_not_repeated(text):
    with pytest.raises(UsageError) as caught:
        parse(text, {})
    said = f"{caught.value} {caught.value.fix}"
    assert SECRET not in said
    assert caught.value.fix
    assert "\n" not in said


def test_the_password_comes_from_the_environment_and_is_never_shown():
    url = parse("postgresql://me@host:5433/db?sslmode=require", {PASSWORD: SECRET})
    assert url.password == SECRET
    assert shown(url) == "postgresql://host/db"
    assert SECRET not in repr(url) + str(url)


def test_several_hosts_have_a_port_each():
    assert parse("postgresql://me@/db?host=a,b&port=5432,5433&sslmode=verify-full", {}).query["port"] == "5432,5433"


def test_a_file_is_taken_as_it_is(tmp_path):
    assert parse(DEFAULT, {}).database == ".flashcore-ci/history.db"
    assert parse(f"sqlite:///{tmp_path}/h.db", {PASSWORD: SECRET}).password is None
