"""The reference and the schema say what the tables say."""

import importlib.util
import json
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from suite_texts import WHOLE

from flashcore_ci.suite.tables import SuiteTable

ROOT = Path(__file__).parents[3]
_spec = importlib.util.spec_from_file_location("suite_reference", ROOT / "tools/docs/suite_reference.py")
reference = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = reference  # pydantic looks up annotations there
_spec.loader.exec_module(reference)
SUITES = ["hopper", "smoke", "planted", "defects", "feature-defects"]


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(reference.schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("table", reference.KEYS, ids=lambda table: table.__name__)
def test_every_key_is_described(table):
    names = {field.alias or name for name, field in table.model_fields.items()}
    assert set(reference.KEYS[table]) == names


def test_the_whole_file_has_the_keys_of_the_reader():
    assert set(reference.SuiteFile.model_fields) == set(SuiteTable.model_fields)


@pytest.mark.parametrize("name", SUITES)
def test_shipped_suites_are_valid(validator, name):
    assert list(validator.iter_errors(tomllib.loads((ROOT / f"gates/{name}.toml").read_text()))) == []


def test_a_small_suite_is_valid(validator):
    small = '[[subject]]\nname = "a"\nfile = "a.py"\n[[workload]]\nid = "x"\n'
    assert list(validator.iter_errors(tomllib.loads(small))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("repeats", "repeets"),
        ('rule = "=="', 'rule = "="'),
        ("finite/bad-values", "finite/bad-value"),
        ('collect = ["correctness"', 'collect = ["corectness"'),
        ('id = "finite"\n', ""),
    ],
)
def test_editors_see_mistakes(validator, old, new):
    assert old in WHOLE
    assert list(validator.iter_errors(tomllib.loads(WHOLE.replace(old, new))))
