import sys
import threading
from types import SimpleNamespace

import pytest

from flashcore_ci.adapters import nvml
from flashcore_ci.adapters.nvml import User
from flashcore_ci.model.errors import CannotCollectError


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818 - the module's own name
    pass


class FakeNvml(SimpleNamespace):
    """An H200 as nvidia-ml-py showed one on 2026-11-21."""

    def __init__(self, **changes):
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlShutdown": None,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150754820096, used=644939776),
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetPersistenceMode": 1,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetUUID": "GPU-1",
            "nvmlSystemGetDriverVersion": "580.159.04",
            "nvmlSystemGetCudaDriverVersion": 13000,
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetComputeMode": 0,
            "nvmlDeviceGetClockInfo": 345,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetPowerUsage": 82155,
            "nvmlDeviceGetEnforcedPowerLimit": 700000,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x05,
            "nvmlDeviceGetComputeRunningProcesses": [],
            **changes,
        }
        super().__init__(**{name: self._answer(value) for name, value in answers.items()})
        for name in ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC", "NVML_CLOCK_SM", "NVML_TEMPERATURE_GPU"):
            setattr(self, name, 0)
        self.NVMLError = NVMLError
        self.NVMLError_NotSupported = NVMLError_NotSupported

    @staticmethod
    def _answer(value):
        def answer(*_):
            if isinstance(value, Exception):
                raise value
            return value

        return answer


@pytest.fixture
def driver(monkeypatch):
    def install(**changes):
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(**changes))

    return install


def test_the_state_of_a_gpu(driver):
    driver()
    state = nvml.read("0")
    assert (state.name, state.uuid, state.cuda, state.compute_capability) == ("NVIDIA H200", "GPU-1", "13.0", "9.0")
    assert state.power == pytest.approx(82.155)
    assert state.reasons == ("idle", "power cap")
    assert state.users == ()
    assert state.ecc is True
    assert state.persistent is True


def test_what_a_gpu_does_not_support_is_none(driver):
    driver(nvmlDeviceGetEccMode=NVMLError_NotSupported(), nvmlDeviceGetMigMode=NVMLError_NotSupported())
    state = nvml.read("GPU-1")
    assert state.ecc is None
    assert state.mig is False


def test_no_driver_means_that_this_machine_cannot_collect(driver):
    driver(nvmlInit=NVMLError("Driver Not Loaded"))
    with pytest.raises(CannotCollectError, match="Driver Not Loaded"):
        nvml.read("0")


def test_the_driver_is_started_beside_and_kept_until_the_end(driver):
    driver()
    events, may_start = [], threading.Event()
    sys.modules["pynvml"].nvmlInit = lambda: (may_start.wait(10), events.append("start"))
    sys.modules["pynvml"].nvmlShutdown = lambda: events.append("end")
    with nvml.kept():
        assert events == []  # who asks nothing does not wait for it
        may_start.set()
    assert events == ["start", "end"]


def test_without_a_driver_nothing_is_kept(driver):
    driver(nvmlInit=NVMLError("Driver Not Loaded"))
    with nvml.kept():
        pass


def test_no_module_means_the_same(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(CannotCollectError, match="nvidia-ml-py"):
        nvml.read("0")


def held(driver, how=None, **changes):
    """What happens to the clocks while ``how`` goes on inside."""
    calls = []
    driver(**changes)
    fake = sys.modules["pynvml"]
    if "nvmlDeviceSetGpuLockedClocks" not in changes:
        fake.nvmlDeviceSetGpuLockedClocks = lambda handle, low, high: calls.append((low, high))
    fake.nvmlDeviceResetGpuLockedClocks = lambda handle: calls.append("reset")
    try:
        with nvml.locked_clocks("GPU-1", 1500):
            calls.append("inside")
            if how is not None:
                raise how
    except (CannotCollectError, KeyboardInterrupt, RuntimeError) as error:
        calls.append(type(error).__name__)
    return calls


def test_locked_clocks_are_free_again_whatever_happens_inside(driver):
    assert held(driver) == [(1500, 1500), "inside", "reset"]
    assert held(driver, KeyboardInterrupt()) == [(1500, 1500), "inside", "reset", "KeyboardInterrupt"]
    assert held(driver, RuntimeError()) == [(1500, 1500), "inside", "reset", "RuntimeError"]


def test_clocks_that_may_not_be_locked_are_no_measurement(driver):
    assert held(driver, nvmlDeviceSetGpuLockedClocks=NVMLError("Insufficient Permissions")) == ["reset", "CannotCollectError"]


def test_clocks_are_left_alone_unless_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with nvml.locked_clocks("GPU-1", None):
        pass


def test_strangers_are_neither_ours_nor_allowed_nor_out_of_sight():
    users = tuple(
        User(pid=pid, name=name, descendant=ours)
        for pid, name, ours in ((1, "train.py", False), (2, "python3", True), (3, "dcgm-exporter", False), (4, "", False))
    )
    assert [user.pid for user in nvml.other_users(users, ("dcgm*",))] == [1]
    assert [user.pid for user in nvml.other_users(users, ())] == [1, 3]
    assert [user.pid for user in nvml.unnamed_users(users)] == [4]


@pytest.mark.parametrize(
    ("users", "elsewhere"),
    [
        ([(1, "", False), (2, "bash", False)], True),
        ([(1, "bash", False)], False),
        ([(1, "", False), (2, "python3", True)], False),
        ([], False),
    ],
)
def test_numbers_of_another_namespace_are_seen_by_our_own_processes(users, elsewhere):
    listed = [User(pid=pid, name=name, descendant=ours) for pid, name, ours in users]
    assert nvml.are_numbered_elsewhere(listed, listed) is elsewhere


UUIDS = ("GPU-aa1", "GPU-ab2", "GPU-b3")


@pytest.fixture
def three(monkeypatch):
    fake = FakeNvml(nvmlDeviceGetCount=3)
    fake.nvmlDeviceGetHandleByIndex = fake.nvmlDeviceGetUUID = lambda given: UUIDS[given] if isinstance(given, int) else given
    fake.nvmlDeviceGetHandleByUUID = lambda uuid: uuid
    monkeypatch.setitem(sys.modules, "pynvml", fake)


@pytest.mark.parametrize(
    ("variable", "visible"),
    [
        (None, UUIDS),
        ("1", UUIDS[1:2]),
        ("2, 0", (UUIDS[2], UUIDS[0])),
        ("GPU-b", UUIDS[2:]),  # as CUDA allows
        ("GPU-a,0", ()),  # two GPUs begin so
        ("0,7,1", UUIDS[:1]),  # as in CUDA, an unknown name ends the list
        ("GPU-b3,-1,0", UUIDS[2:]),
        ("MIG-12", ("MIG-12",)),
        ("", ()),
        ("NoDevFiles", ()),
    ],
)
def test_a_gpu_that_the_user_hides_is_not_taken(three, monkeypatch, variable, visible):
    monkeypatch.delenv(nvml.VISIBLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(nvml.VISIBLE, variable)
    assert nvml.uuids() == visible
    if visible:
        assert nvml.read("").uuid == visible[0]
    else:
        with pytest.raises(CannotCollectError, match="no GPU of this machine has that name"):
            nvml.read("")
    assert nvml.read("1").uuid == UUIDS[1]  # who names one gets it


@pytest.mark.parametrize(("variable", "hidden"), [("", True), (" ", True), ("-1", True), ("0", False), ("GPU-1", False)])
def test_an_empty_list_of_visible_gpus_hides_all(monkeypatch, variable, hidden):
    monkeypatch.setenv(nvml.VISIBLE, variable)
    assert nvml.are_hidden() is hidden
    monkeypatch.delenv(nvml.VISIBLE)
    assert not nvml.are_hidden()


@pytest.mark.parametrize(("loads", "most"), [((0, 0, 92, 3, 0), 92), ((4, 7), 7), ((5, None, 60), 60)])
def test_the_highest_load_of_the_other_gpus_is_kept(monkeypatch, loads, most):
    fake = FakeNvml(nvmlDeviceGetCount=3)
    fake.nvmlDeviceGetHandleByIndex = lambda index: index
    fake.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"
    left, over = list(loads), threading.Event()

    def load(handle):
        assert handle, "the GPU that is measured"
        value = left.pop(0) if handle == 2 and left else None
        if not left:
            over.set()
        if value is None:
            raise NVMLError_NotSupported("a divided GPU has none")
        return SimpleNamespace(gpu=value)

    fake.nvmlDeviceGetUtilizationRates = load
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(nvml, "SAMPLE_SECONDS", 0.001)
    with nvml.neighbours(("GPU-0",)) as seen:
        assert over.wait(30.0)
    assert seen == {"GPU-2": most}


def test_short_runs_have_a_load_too_and_a_lost_driver_ends_none(driver):
    loads = iter([1, 98])
    driver(nvmlDeviceGetCount=1)
    sys.modules["pynvml"].nvmlDeviceGetUtilizationRates = lambda _: SimpleNamespace(gpu=next(loads))
    with nvml.neighbours(("GPU-0",)) as seen:
        while not seen:
            threading.Event().wait(0.001)
    assert seen == {"GPU-1": 98}
    driver(nvmlDeviceGetCount=NVMLError("GPU is lost"))
    with nvml.neighbours(("GPU-0",)) as seen:
        pass
    assert seen == {}


@pytest.mark.parametrize("name", ["3", "4294967296", "9" * 5000, "1" * 10])
def test_a_number_without_a_gpu_is_one_line(three, monkeypatch, name):
    monkeypatch.delenv(nvml.VISIBLE, raising=False)
    with pytest.raises(CannotCollectError, match=f"this machine has no GPU {name[:20]}"):
        nvml.read(name)


@pytest.mark.parametrize(("variable", "chosen"), [(None, False), ("", True), ("0,1", True)])
def test_whether_the_user_chose_gpus(monkeypatch, variable, chosen):
    monkeypatch.delenv(nvml.VISIBLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(nvml.VISIBLE, variable)
    assert nvml.are_chosen() is chosen
