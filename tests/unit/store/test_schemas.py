import json
from pathlib import Path

import jsonschema
import pytest
from report_factories import make_report

from flashcore_ci.store.codec import encode
from flashcore_ci.store.schemas import PUBLISHED, schema_text

FOLDER = Path(__file__).resolve().parents[3] / "docs/schemas"


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_the_published_schema_is_that_of_the_record(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == schema_text(name), "run make generate"


def test_nothing_else_is_published():
    assert {path.name for path in FOLDER.iterdir()} == {
        *PUBLISHED,
        "suite-v1.json",
    }  # the latter is of suites, which people write


def test_a_report_is_valid_and_a_changed_one_is_not():
    schema = json.loads(schema_text("report-v1.json"))
    report = json.loads(encode(make_report()))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(report, schema)
    for wrong in ({**report, "schema": "report-v2"}, {**report, "more": 1}, {**report, "outcome": "MAYBE"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    report["verdicts"][0].pop("reading")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)
