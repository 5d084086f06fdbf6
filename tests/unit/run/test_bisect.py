"""Which commits ``bisect`` builds."""

from __future__ import annotations

from dataclasses import replace

from factories import make_plan

from flashcore_ci.run import bisect


def test_a_subject_that_includes_from_the_top_folder_depends_on_all_of_it() -> None:
    (description,) = make_plan().descriptions
    everything = replace(description, build=replace(description.build, includes=(".", "kernel/include")))
    assert {".", "kernel"} == set(bisect._paths((everything,)))
    assert set(bisect._paths((description,))) == {"kernel"}
