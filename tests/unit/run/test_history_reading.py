import pytest
from history_factories import add, compared, evidence_of, migrated_url_of, new_run

from flashcore_ci.history import address, database, queries, writing
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.history import Alert, AlertSeries, Commit
from flashcore_ci.run.history_reading import ends_of_alert


@pytest.fixture
def url(tmp_path):
    """A history with an alert on two series, of which ``big`` is the clearer one."""
    url = migrated_url_of(tmp_path)
    for number in (1, 2, 3):
        evidence = evidence_of(compared(), collected_at=f"2026-11-0{number}T08:00:00Z")
        add(url, new_run(evidence, commit=Commit(sha=f"{number}" * 40, position=number)))
    with database.reading(address.parse(url, {})) as connection:
        ids = {series.workload: series.id for series in queries.series(connection)}
        runs = {run.commit.sha[0]: run.id for run in queries.runs(connection)}
    parts = (
        AlertSeries(series=ids["big"], first=runs["3"], last_good=runs["2"], log_ratio=0.02, standard_error=0.001),
        AlertSeries(series=ids["small"], first=runs["2"], last_good=runs["1"], log_ratio=0.02, standard_error=0.01),
    )
    values = {"state": "detected", "opened_at": 1, "closed_at": None, "owner": "o", "reason": "r", "until": ""}
    alerts = (Alert(key="A1", series=parts, **values), Alert(key="A2", series=(), **values))
    database.write(address.parse(url, {}), lambda connection: [writing.put_alert(connection, alert) for alert in alerts])
    return url


def test_an_alert_names_workload_and_both_ends(url):
    assert ends_of_alert(url, {}, "A1", None) == ("big", "2" * 40, "3" * 40)
    assert ends_of_alert(url, {}, "A1", "small") == ("small", "1" * 40, "2" * 40)


@pytest.mark.parametrize(("key", "workload"), [("A2", None), ("none", None), ("A1", "other")])
def test_without_a_last_good_commit_there_is_nothing_to_bisect(url, key, workload):
    with pytest.raises(UsageError, match="there is no alert"):
        ends_of_alert(url, {}, key, workload)
