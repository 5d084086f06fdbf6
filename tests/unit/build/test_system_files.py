import pytest

from flashcore_ci.build.system_files import SystemFiles


@pytest.fixture
def system(tmp_path):
    for path in ("root/kernel", "root/home/cuda/include", "usr/c++", "usr/include/sys"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "usr/include/sys/types.h").write_text("types")
    folders = tuple(str(tmp_path / path) for path in ("root/home/cuda/include", "usr/c++", "usr/include"))
    return lambda: SystemFiles(root=tmp_path / "root", toolchain=tmp_path / "root/home/cuda", folders=folders)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("kernel/a.h", True),
        ("../outside.h", True),
        ("{}/root/kernel/a.h", True),
        ("{}/root/home/cuda/include/cuda.h", False),
        ("{}/usr/include/sys/types.h", False),
        ("{}/root/../usr/x.h", False),
    ],
)
def test_which_names_mean_files_of_the_checkout(system, tmp_path, name, ours):
    assert system().is_ours(name.format(tmp_path)) is ours


def test_headers_are_in_the_compilers_folders(system, tmp_path):
    assert system().is_header(tmp_path / "usr/include/sys/types.h")
    assert system().is_header(tmp_path / "root/home/cuda/include/cuda.h")
    assert not system().is_header(tmp_path / "tmp/types.h")


@pytest.mark.parametrize("front", ["root/kernel/sys/types.h", "usr/c++/sys/types.h", "root/home/cuda/include/sys/types.h"])
def test_a_header_that_is_found_earlier_changes_the_digest(system, tmp_path, front):
    names = (str(tmp_path / "usr/include/sys/types.h"),)
    before = system().digest(("kernel",), names)
    assert system().digest(("kernel",), names) == before
    (tmp_path / front).parent.mkdir()
    (tmp_path / front).write_text("types")
    assert system().digest(("kernel",), names) != before


def test_bytes_and_absence_change_the_digest(system, tmp_path):
    header = tmp_path / "usr/include/sys/types.h"
    digests = [system().digest((), (str(header),))]
    header.write_text("typed")
    digests.append(system().digest((), (str(header),)))
    header.unlink()
    digests.append(system().digest((), (str(header),)))
    assert len(set(digests)) == len(digests)
