import sys
import tempfile
from pathlib import Path

import pytest

from flashcore_ci.suite import settings
from flashcore_ci.suite.settings import Settings


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"FLASHCORE_CI_HOME": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"FLASHCORE_CI_HOME": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/flashcore-ci"),
        ({"HOME": "/c"}, "/c/.cache/flashcore-ci"),
    ],
)
def test_home(environ, home):
    assert Settings.from_environment(environ).home == Path(home)


def test_without_home_the_user_database_knows(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/known"))
    assert Settings.from_environment({}).home == Path("/known/.cache/flashcore-ci")


def test_an_unknown_user_keeps_files_in_the_temporary_folder(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert Settings.from_environment({}).home == Path(tempfile.gettempdir()) / ".cache/flashcore-ci"


def test_python_and_locks_may_be_chosen():
    chosen = Settings.from_environment({"FLASHCORE_CI_PYTHON": "/p", "FLASHCORE_CI_LOCK_DIR": "/l"})
    assert (chosen.python, chosen.lock_dir) == (Path("/p"), Path("/l"))


def test_defaults(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "SYSTEM_LOCKS", tmp_path)
    found = Settings.from_environment({"HOME": "/c"})
    assert (found.python, found.lock_dir) == (Path(sys.executable), tmp_path)


def test_locks_go_to_the_temporary_folder_where_there_is_no_other(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "SYSTEM_LOCKS", tmp_path / "none")
    assert Settings.from_environment({"HOME": "/c"}).lock_dir == Path(tempfile.gettempdir())
