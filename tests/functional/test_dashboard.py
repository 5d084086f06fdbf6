"""The command `dashboard`: the static site, the local server, the digest, and folders that are not its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from history_factories import add, made_run, migrated_url_of, new_run

from flashcore_ci.adapters import clock
from flashcore_ci.cli import main
from flashcore_ci.dashboard import page
from flashcore_ci.history import address, database, writing
from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.history import Standing
from flashcore_ci.run import dashboard, dashboard_server
from flashcore_ci.suite.alerts import write_alert

NO_SUITE = Path("none.toml")
NONE = "no host at all"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A history of eight made-up runs of three series, and one run of a kernel."""
    found = migrated_url_of(tmp_path)
    add(found, *(made_run(number, series=3, version=number // 4) for number in range(8)), new_run())
    return found


@contextlib.contextmanager
def serving(url: str, suite: Path = NO_SUITE) -> Iterator[dashboard_server.Server]:
    with dashboard_server.start(url, {}, suite, 0) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dashboard_server.Server]:
    """A server of a history that nobody changes."""
    url = migrated_url_of(tmp_path_factory.mktemp("history"))
    add(url, *(made_run(number, series=2, version=0) for number in range(2)))
    with serving(url) as found:
        yield found


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


def ask(server: dashboard_server.Server, method: str, path: str, *hosts: str) -> Answer:
    """Send a request with the right host, or with these."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host=True)
        for host in hosts or (server.host,):
            if host != NONE:
                connection.putheader("Host", host)
        connection.endheaders()
        with connection.getresponse() as answer:
            return Answer(answer.status, answer.headers, answer.read())


def tool(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main.run(["dashboard", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_site_is_written_again_into_its_own_folder(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "site"
    status, _, said = tool(capsys, "build", "--db", url, "--out", str(out))
    assert (status, said.endswith(f"MB in {out}\n")) == (0, True)
    written = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert "index.html" in written
    assert len([path for path in written if path.startswith("w/")]) == 5
    (out / "w/000000000000.html").write_text("of an older history")
    (out / "w/.x.html.part").write_text("of a build that was killed")
    assert tool(capsys, "build", "--db", url, "--out", str(out), "--json")[0] == 0
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()) == written


@pytest.mark.parametrize("name", ["x", "index.htm", "assets/x-y", "w/x.html", "data/run/0.json", "w/0123456789ab.html/x"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_foreign_file_stays(url: str, tmp_path: Path, name: str, marked: bool) -> None:
    out = tmp_path / "site"
    file = out / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    if marked:
        (out / ".flashcore-ci").touch()
    with pytest.raises(UsageError, match="did not write"):
        dashboard.build(url, {}, NO_SUITE, out)
    assert [path.read_text() for path in out.rglob("*") if path.is_file() and path.name != ".flashcore-ci"] == ["mine"]


@pytest.mark.parametrize("name", ["w", "data/run", "assets", "index.html", ""])
def test_a_link_is_never_followed(url: str, tmp_path: Path, name: str) -> None:
    other, out = tmp_path / "other", tmp_path / "site"
    other.mkdir()
    (other / "index.html").write_text("mine")
    dashboard.build(url, {}, NO_SUITE, out)
    linked = out / name if name else tmp_path / "linked"
    if linked.is_dir():
        linked.rename(tmp_path / "moved")
    elif linked.exists():
        linked.unlink()
    linked.symlink_to(other / "index.html" if name == "index.html" else other)
    with pytest.raises(UsageError):
        dashboard.build(url, {}, NO_SUITE, out if name else linked)
    assert [path.name for path in other.iterdir()] == ["index.html"]
    assert (other / "index.html").read_text() == "mine"


def test_a_site_without_the_marker_is_foreign(url: str, tmp_path: Path) -> None:
    out = tmp_path / "site"
    dashboard.build(url, {}, NO_SUITE, out)
    (out / ".flashcore-ci").unlink()
    with pytest.raises(UsageError, match="did not write"):
        dashboard.build(url, {}, NO_SUITE, out)


def test_wrong_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("build", "--out", str(tmp_path / "x")), ("serve", "--port", "0"), ("digest",)):
        status, _, said = tool(capsys, *arguments, "--db", f"sqlite:///{tmp_path}/none.db")
        assert (status, said.count("\n"), "there is no history" in said) == (2, 2, True), said


def test_the_server_sends_what_the_site_has(server: dashboard_server.Server) -> None:
    answer = ask(server, "GET", "/")
    body = answer.body
    assert (answer.status, body[:15]) == (200, b"<!DOCTYPE html>")
    assert answer.headers["Content-Security-Policy"] == f"{page.POLICY}; frame-ancestors 'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Server"].strip() == "flashcore-ci"
    head = ask(server, "HEAD", "/index.html?x=1")
    assert (head.status, head.body, int(head.headers["Content-Length"])) == (200, b"", len(body))
    assert server.server_address[0] == "127.0.0.1"


def test_the_server_follows_the_database(url: str, tmp_path: Path) -> None:
    with serving(url) as server:
        assert b"9 runs" in ask(server, "GET", "/").body
        add(url, made_run(9, series=3, version=2))
        assert b"10 runs" in ask(server, "GET", "/").body
        (tmp_path / "history.db").rename(tmp_path / "moved.db")
        answer = ask(server, "GET", "/")
        assert (answer.status, answer.body.count(b"\n")) == (503, 1)


def test_the_server_follows_decisions_removed_runs_and_the_clock(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite := tmp_path / "gates.toml").touch()
    series = (AlertedSeries(suite="made up", workload="w", machine_class="m", percent=1.0, standard_error=0.1, z=9.0),)
    facts = {"opened": "2026-11-20", "commit": "a" * 40, "last_good": "", "series": series}
    alert = AlertFile(id=f"{'a' * 12}-{'0' * 8}", state=AlertState.DETECTED, **facts)
    with serving(url, suite) as server:
        for owner in ("", "ann"):
            write_alert(suite, replace(alert, owner=owner))
            assert (owner or "nobody yet").encode() in ask(server, "GET", "/").body
        database.write(address.parse(url, {}), lambda c: writing.retain(c, before=1_750_000_000, standings=list(Standing)))
        before = ask(server, "GET", "/").body
        assert b"9 runs" not in before
        tomorrow = clock.wall() + 90_000
        monkeypatch.setattr(clock, "wall", lambda: tomorrow)
        assert ask(server, "GET", "/").body != before


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "MKCOL", "get"])
def test_no_route_writes(server: dashboard_server.Server, method: str) -> None:
    assert ask(server, method, "/index.html").status == 405


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "localhost",
        "evil.example:{port}",
        "127.0.0.1:{port}.evil.example",
        "",
        "0.0.0.0:{port}",
        "[::1]:{port}",
        "127.0.0.1:1",
    ],
)
def test_another_host_gets_nothing(server: dashboard_server.Server, host: str) -> None:
    answer = ask(server, "GET", "/", host.format(port=server.server_port))
    assert (answer.status, b"html" in answer.body) == (421, False)


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/x",
        "//etc/passwd",
        "/assets/../../x",
        "/.flashcore-ci",
        "/data/",
        "/w",
        "http://evil/x",
        "/assets\\x",
    ],
)
def test_only_paths_of_the_site_are_sent(server: dashboard_server.Server, path: str) -> None:
    assert ask(server, "GET", path).status == 404


def test_a_request_without_or_with_two_hosts_gets_nothing(server: dashboard_server.Server) -> None:
    for hosts in ((NONE,), (server.host, "evil.example"), (server.host, server.host)):
        assert ask(server, "GET", "/", *hosts).status == 421


def test_a_taken_port_is_one_line(server: dashboard_server.Server, tmp_path: Path) -> None:
    url = migrated_url_of(tmp_path)
    with pytest.raises(UsageError, match="cannot listen"):
        dashboard_server.start(url, {}, NO_SUITE, server.server_port)


def test_ctrl_c_ends_the_server_well(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(server: dashboard_server.Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dashboard_server.Server, "serve_forever", interrupted)
    status, text, said = tool(capsys, "serve", "--db", url, "--port", "0", "--json")
    assert (status, json.loads(text)["address"]) == (0, said.strip())


def test_the_digest_is_markdown(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text, _ = tool(capsys, "digest", "--db", url)
    assert (status, text.splitlines()[0].startswith("# ")) == (0, True)
    assert json.loads(tool(capsys, "digest", "--db", url, "--json")[1])["markdown"] == text
