import csv
import io
from dataclasses import replace

import pytest
from history_factories import PLAN, add, compared, evidence_of, migrated_url_of, new_run
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from flashcore_ci.history import address, database, export

HOSTILE = [
    '=cmd()|"x"',
    "+1",
    "-1",
    "@SUM(1)",
    'a"b\\',
    "a\nb # EOF\nfake 1",
    "\x1b[31m",
    "\u202eevil",
    '"} 1\nflashcore_ci_passed{x="',
    ",;\t",
    "a\rb",
]


def texts(folder, suite):
    url = migrated_url_of(folder)
    add(url, new_run(evidence_of(compared()), plan=replace(PLAN, suite=suite)))
    with database.reading(address.parse(url, {})) as connection:
        return "".join(export.csv_text(connection)), "".join(export.openmetrics_text(connection))


def test_both_formats_hold_the_points(tmp_path):
    table, metrics = texts(tmp_path, "hopper")
    rows = {row["workload"]: row for row in csv.DictReader(io.StringIO(table))}
    assert (rows["big"]["suite"], rows["big"]["outcome"], rows["big"]["standing"]) == ("hopper", "FAIL", "protected")
    assert float(rows["big"]["ms"]) == pytest.approx(0.6514)
    families = {family.name: family for family in text_string_to_metric_families(metrics)}
    assert [sample.value for sample in families["flashcore_ci_passed"].samples] == [0.0, 0.0]
    assert families["flashcore_ci_time_milliseconds"].samples[0].value == pytest.approx(0.6514)


@pytest.mark.parametrize("suite", HOSTILE)
def test_text_from_outside_stays_text(tmp_path, suite):
    table, metrics = texts(tmp_path, suite)
    rows = list(csv.reader(io.StringIO(table)))
    assert {len(row) for row in rows} == {len(export.COLUMNS)}
    assert not any(cell.startswith(("=", "@", "+")) for row in rows for cell in row)
    assert len(rows) == 1 + 2
    assert all(character.isprintable() or character == "\n" for character in table + metrics)
    found = [sample for family in text_string_to_metric_families(metrics) for sample in family.samples]
    assert len(found) == 2 + 3  # two workloads with a verdict, one that was timed
    assert {sample.labels["machine_class"] for sample in found} == {"NVIDIA H200, sm_90, 132 multiprocessors"}


def test_runs_that_feed_no_detection_are_not_metrics(tmp_path):
    url = migrated_url_of(tmp_path)
    add(url, replace(new_run(), standing=new_run().standing.OTHER))
    with database.reading(address.parse(url, {})) as connection:
        metrics = "".join(export.openmetrics_text(connection))
    assert not [sample for family in text_string_to_metric_families(metrics) for sample in family.samples]
