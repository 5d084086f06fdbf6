"""The bar: all that a suite asks, and how a change differs from the base's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What base or head asks. ``references``, ``subjects`` and ``dependencies`` map names to digests.

    ``project`` maps the defaults of pyproject.toml to paths. ``selftest`` is the raw table of the self-test, ``selftest_suite`` the suite of its broken kernels.
    """

    suite: Suite
    descriptions: tuple[Description, ...]
    references: Mapping[str, str] = field(default_factory=dict)
    subjects: Mapping[str, str] = field(default_factory=dict)
    dependencies: Mapping[str, str] = field(default_factory=dict)
    selftest: Mapping[str, Any] = field(default_factory=dict)
    selftest_suite: Suite | None = None
    project: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChange:
    """One thing that head asks less of. ``code`` is a reason code, ``subject`` names the changed subject file's subject."""

    code: str
    where: str
    before: str
    after: str
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarDifference:
    """How head's bar differs. ``base`` digests the base's bar, ``digest`` the exact difference, also where head asks more.

    ``problem`` says why nothing was compared, with its reason code in ``problem_code``. ``head`` digests what head's subjects said
    of themselves, or is empty if an older tool compared.
    """

    base: str
    digest: str
    changes: tuple[BarChange, ...]
    problem_code: str = ""
    problem: str = ""
    head: str = ""
    schema: Literal["bar-v1"] = "bar-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A reviewed file that accepts one exact difference from one exact base."""

    file: str
    base: str
    difference: str
    why: str
    owner: str
