"""The file that pins anchors."""

from dataclasses import replace

import pytest

from flashcore_ci.model.anchor import Pin, PinLink, PinnedCode, current
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.evidence import Identity
from flashcore_ci.suite.anchors import append_anchor, read_anchors

CODE = PinnedCode(subject="s", machine_code="a" * 64, launcher="b" * 64, binding="c" * 64, source="d" * 64)
PIN = Pin(
    suite="tiny",
    commit="e" * 40,
    since="2026-11-22",
    reason='why "not"',
    owner="kernels",
    compiler="nvcc 13.0.88",
    tools=(("torch", "2.11.0"),),
    codes={"big-n=4": CODE},
    links=(PinLink(workload="big-n=4", machine_class="H", log_ratio=-1.5e-05, standard_error=0.001, df=4.0, rounds=5),),
)


@pytest.fixture
def suite(tmp_path):
    return tmp_path / "tiny.toml"


def test_what_is_written_is_read(suite):
    append_anchor(suite, PIN)
    newer = replace(PIN, since="2026-11-23", reason="newer")
    append_anchor(suite, newer)
    assert read_anchors(suite) == (PIN, newer)
    assert current(read_anchors(suite), "tiny") == newer
    assert current(read_anchors(suite), "other") is None


def test_no_file_pins_nothing(suite):
    assert read_anchors(suite) == ()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("e" * 40, "main", "commit"),
        ("a" * 64, "aa", "machine_code"),
        ("log_ratio = -1.5e-05", "log_ratio = nan", "log_ratio"),
        ('reason = "why', 'more = 1\nreason = "why', "more"),
        ("since = 2026-11-22", 'since = "soon"', "since"),
        ("[anchor.workload", "[anchor.workloads", "workload"),
        ("[[anchor]]", "[[anchor]", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(suite, old, new, words):
    file = append_anchor(suite, PIN)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(SuiteError, match=words) as caught:
        read_anchors(suite)
    assert caught.value.fix


def test_anchors_are_in_the_order_of_days(suite):
    append_anchor(suite, PIN)
    append_anchor(suite, replace(PIN, since="2026-01-01"))
    with pytest.raises(SuiteError, match="2026-01-01 comes after"):
        read_anchors(suite)


def test_a_link_to_a_file_pins_nothing(suite, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real = append_anchor(tmp_path / "elsewhere/tiny.toml", PIN)
    (tmp_path / "anchor.toml").symlink_to(real)
    with pytest.raises(SuiteError, match="a link pins nothing"):
        read_anchors(suite)


def test_a_build_is_the_pinned_one_whatever_the_subject_file():
    identity = Identity(machine_code="a" * 64, launcher="b" * 64, binding="c" * 64, subject="other", workload="w", collector="c")
    assert CODE.difference(identity) == ""
    assert CODE.difference(replace(identity, machine_code="x", binding="y")) == "machine code, binding"
