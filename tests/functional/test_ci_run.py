"""`.ci/run` runs every step, and is red when any of them is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from replayed import ROOT

STEPS = (".venv/.lint", ".venv/.tools", "lint", "lowest", "test", "gate")
NEEDED = {".venv/.lint": 1, ".venv/.tools": 4}
"""So many steps are made when this one is red: the others need it."""
MAKE = """#!/bin/sh
for step; do
  case "$step" in -*) continue ;; esac
  echo "$step" >> made
  echo "said by $step"
  [ "$step" = "$RED" ] && status=2
done
exit "${status:-0}"
"""


@pytest.mark.parametrize("red", ["", *STEPS])
def test_a_red_step_is_a_red_run(tmp_path: Path, red: str) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, text in {"make": MAKE, "chromium": "#!/bin/sh\n", ".venv/bin/python": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RED": red, "TMPDIR": str(tmp_path)}
    done = subprocess.run([tmp_path / ".ci/run"], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode == 0) == (red == ""), done.stdout
    made = (tmp_path / "made").read_text().split()
    assert sorted(made) == sorted(STEPS[: NEEDED.get(red)])
    assert made[0] == STEPS[0]
    assert red in NEEDED or made.index(".venv/.tools") < min(made.index("test"), made.index("gate"))
    assert [step for step in made if f"said by {step}\n" not in done.stdout] == []
    assert list(tmp_path.glob("tmp.*")) == []


def test_a_browser_that_cannot_be_installed_is_red(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    text = (
        (ROOT / ".ci/run")
        .read_text()
        .replace("$EUID -eq 0 ]] && ! command -v chromium", "true ]] && ! command -v no-such-browser")
    )
    (tmp_path / ".ci/run").write_text(text)
    (tmp_path / ".ci/run").chmod(0o755)
    for name, status in (("make", 0), ("apt-get", 100)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {status}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run([tmp_path / ".ci/run"], env=env, check=False, timeout=60).returncode == 100
