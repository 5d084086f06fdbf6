"""Which kernels no digest of a workload covers."""

from __future__ import annotations

import pytest
from factories import make_description, make_plan

from flashcore_ci.model.coverage import describe_foreign, foreign_entries

MANIFEST = {"attention": ("forward", "prepare"), "decode": ("decode", "prepare")}


def test_an_entry_function_of_both_subjects_is_not_foreign() -> None:
    assert foreign_entries(MANIFEST, "attention") == {"decode": "decode"}
    assert foreign_entries(MANIFEST, "decode") == {"forward": "attention"}


def test_to_a_subject_that_builds_nothing_all_are_foreign() -> None:
    assert set(foreign_entries(MANIFEST, "compiled-when-run")) == {"forward", "prepare", "decode"}


def test_a_kernel_compiled_when_it_runs_may_have_the_name_of_a_built_one() -> None:
    assert set(foreign_entries(MANIFEST, "compiled-when-run", ("forward",))) == {"prepare", "decode"}
    assert foreign_entries(MANIFEST, "attention", ("decode",)) == {"decode": "decode"}  # a built subject has what it built


@pytest.mark.parametrize(
    ("launched", "words"),
    [
        (("fill", "forward"), ""),
        (("fill", "forward", "decode"), "decode ran, a kernel of subject decode"),
        ((), ""),
    ],
)
def test_a_foreign_kernel_is_named_with_its_subject(launched: tuple[str, ...], words: str) -> None:
    assert describe_foreign(launched, foreign_entries(MANIFEST, "attention")) == words


def test_the_manifest_of_a_plan_has_the_entries_of_what_is_built() -> None:
    descriptions = (make_description(), make_description(subject="compiled", build=None))
    assert make_plan(descriptions=descriptions).manifest == {"scale": ("scale_f32",)}
