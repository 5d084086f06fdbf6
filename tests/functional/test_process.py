"""The one door to other processes, with real children."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flashcore_ci.adapters import process
from flashcore_ci.model.errors import CannotCollectError

ROOT = Path(__file__).parents[2]


def run(code, folder, *, timeout=300.0, **changes):
    return process.run([sys.executable, "-c", code], logs=folder, name="child", timeout=timeout, **changes)


def alive(pid):
    """Whether the process still runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def gone(pid):
    deadline = time.monotonic() + 30
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def pid_in(path):
    deadline = time.monotonic() + 300
    while not path.exists() or not path.read_text(encoding="ascii").strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text(encoding="ascii"))


def test_output_and_status_are_kept_apart(tmp_path):
    done = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", tmp_path)
    assert (done.returncode, done.text(), done.error_text(), done.timed_out) == (7, "out\n", "err\n", False)
    assert done.signal_name == ""


def test_a_child_that_kills_itself_is_named_by_its_signal(tmp_path):
    done = run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", tmp_path)
    assert (done.returncode, done.signal_name) == (-11, "SIGSEGV")


def test_300_kilobytes_on_both_pipes_do_not_block(tmp_path):
    code = "import sys\nfor _ in range(300):\n sys.stdout.write('o' * 1024)\n sys.stderr.write('e' * 1024)\n"
    done = run(code, tmp_path)
    assert done.returncode == 0
    assert (len(done.text()), len(done.error_text())) == (300 * 1024, 300 * 1024)


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    done = run("import sys; sys.stdout.buffer.write(b'a\\xff\\xfeb')", tmp_path)
    assert done.text() == "a\ufffd\ufffdb"


def test_a_child_has_no_input_to_wait_for(tmp_path):
    assert run("import sys; print(len(sys.stdin.read()))", tmp_path).text() == "0\n"


def test_time_runs_out(tmp_path):
    done = run("import time; time.sleep(600)", tmp_path, timeout=0.5)
    assert done.timed_out
    assert done.signal_name == "SIGTERM"
    assert done.seconds < 60


def test_a_child_that_ignores_sigterm_is_killed(tmp_path):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    for timeout in (0.5, 5, 50):
        done = run(code, tmp_path, timeout=timeout)
        if done.text():  # else a busy machine had not started it
            break
    assert done.timed_out
    assert done.text() == "deaf\n"
    assert done.signal_name == "SIGKILL"


@pytest.mark.parametrize("ends", ["time.sleep(600)", "pass"])
def test_grandchildren_are_ended_too(tmp_path, ends):
    code = f"""
import subprocess, sys, time
deaf = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
    "open({str(tmp_path / "pid")!r}, 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", deaf])
while not open({str(tmp_path / "pid")!r}, "a+").tell(): time.sleep(0.02)
{ends}
"""
    pid = tmp_path / "pid"
    done = run(code, tmp_path, should_stop=lambda: ends != "pass" and pid.exists() and pid.stat().st_size > 0)
    assert done.timed_out == (ends != "pass")
    assert gone(pid_in(tmp_path / "pid"))


def test_the_caller_may_give_a_child_up(tmp_path):
    done = run("import time; time.sleep(600)", tmp_path, should_stop=lambda: True)
    assert done.timed_out


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(CannotCollectError, match="no-such-program"):
        process.run(["/no-such-program"], logs=tmp_path, name="child", timeout=5)


def test_variables_are_added_and_an_environment_replaces(tmp_path, monkeypatch):
    monkeypatch.setenv("INHERITED", "yes")
    show = "import os; print(os.environ.get('INHERITED'), os.environ.get('ADDED'))"
    assert run(show, tmp_path, variables={"ADDED": "1"}).text() == "yes 1\n"
    assert run(show, tmp_path, env={"ADDED": "2"}).text() == "None 2\n"


MEETS = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / sys.argv[2]).touch()
while len(list(folder.iterdir())) < 3: time.sleep(0.01)
"""


def test_children_run_side_by_side(tmp_path):
    """Each waits for the two others."""
    (tmp_path / "met").mkdir()
    ended = []

    def child(name):
        argv = [sys.executable, "-c", MEETS, str(tmp_path / "met"), name]
        ended.append(process.run(argv, logs=tmp_path / name, name="child", timeout=100))

    threads = [threading.Thread(target=child, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(done.returncode, done.timed_out) for done in ended] == [(0, False)] * 3


def test_our_descendants_are_known(tmp_path):
    file = tmp_path / "pid"
    code = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", "import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"])
"""
    thread = threading.Thread(target=run, args=(code, tmp_path))
    thread.start()
    pid = pid_in(file)
    assert process.is_descendant(pid)
    assert not process.is_descendant(os.getppid())
    os.kill(pid, signal.SIGKILL)
    thread.join()


def test_a_descendant_in_another_session_is_known(tmp_path):
    file = tmp_path / "pid"
    code = f"""
import subprocess, sys
daemon = "import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.run([sys.executable, "-c", daemon], start_new_session=True)
"""
    thread = threading.Thread(target=run, args=(code, tmp_path))
    thread.start()
    pid = pid_in(file)
    assert process.is_descendant(pid)
    os.kill(pid, signal.SIGKILL)
    thread.join()
    assert not process.is_descendant(pid)
    assert not process._children


STOPPED = """
import signal, sys
from pathlib import Path
from flashcore_ci.adapters import process
from flashcore_ci.model.errors import InterruptedRunError

signal.signal(signal.SIGTERM, lambda *_: process.stop_all())
folder = Path(sys.argv[1])
deaf = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);" \\
    f"open({str(folder / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
done = process.run([sys.executable, "-c", deaf], logs=folder, name="child", timeout=600)
try:
    process.run([sys.executable, "-c", ""], logs=folder, name="next", timeout=60)
except InterruptedRunError:
    print("refused", done.returncode, process.stopping())
"""


def test_sigterm_ends_a_deaf_child_and_refuses_the_next(tmp_path):
    tool = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    child = pid_in(tmp_path / "pid")
    tool.terminate()
    out, _ = tool.communicate(timeout=300)
    assert out == "refused -9 True\n"
    assert gone(child)
