"""Take rights away from the own process, before it loads untrusted code.

The order matters: first what needs rights, then the user, then the filter. ``verify`` tries what must fail afterwards, because a
call that succeeded proves little.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import resource
import signal
import site
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flashcore_ci.model import isolation

NEW_USER, NEW_NET, NEW_IPC = 0x10000000, 0x40000000, 0x08000000
NO_NEW_PRIVS, PDEATHSIG, SET_SECCOMP, FILTER_MODE = 38, 1, 22, 2
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""The file rights that each version of landlock handles."""
NET_VERSION, SCOPE_VERSION = 4, 6  # of landlock: TCP, and signals and abstract sockets
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/sys")
PARTLY = ("/etc", "/opt")
"""Folders with secrets of root."""
DEVICES = ("nvidia*", "nvidia-caps/*", "null", "zero", "full", "random", "urandom")
USERS = (61_000, 64_999)
DENIED = {
    "x86_64": (101, 310, 311, 438, 272, 308, 165, 321, 425, 250, 298, 323, 304, 112, 434, 424),
    "aarch64": (117, 270, 271, 438, 97, 268, 40, 280, 425, 219, 241, 282, 265, 157, 434, 424),
}
"""ptrace, process_vm_readv, process_vm_writev, pidfd_getfd, unshare, setns, mount, bpf, io_uring_setup, keyctl, perf_event_open,
userfaultfd, open_by_handle_at, setsid, pidfd_open, pidfd_send_signal."""
IGNORED = {"x86_64": 109, "aarch64": 154}
"""setpgid does nothing, and says that it did: ninja starts no compiler without it."""
SOCKET = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The audit architecture, and the number of socket()."""
UNIX, NETLINK = 1, 16
SET_DUMPABLE, KEEP_CAPABILITIES, CAPABILITY_VERSION, READ_SEARCH = 4, 8, 0x20080522, 1 << 2
MAX_FILE, MAX_TASKS, AMBIENT, RAISE = 1 << 30, 2048, 47, 2
OPEN = "open"

_libc = ctypes.CDLL(None, use_errno=True)


def enter(readable: Sequence[Path], writable: Path, *, user: int) -> None:
    """Give up network, files, user and system calls. OSError if the kernel refuses what must not be missing."""
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        raise OSError(errno.EBUSY, "another thread would keep its rights")
    _leave_network()
    _check(_libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    is_public = all(map(_is_public, (*readable, *interpreter_paths())))
    _restrict_files(readable, writable, is_public=is_public)
    if user:
        _become(user, reads_all=not is_public)
    _check(_libc.prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0), "pdeathsig")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
    if user:  # the count is per user
        resource.setrlimit(resource.RLIMIT_NPROC, (MAX_TASKS, MAX_TASKS))
    _filter_calls()


def verify(parent: int, hidden: Iterable[Path], fixed: Iterable[Path], *, user: int) -> dict[str, str]:
    """Try what must fail. Return what holds, or OPEN."""
    network = OPEN if _reaches_network() else isolation.NETWORK
    leaks = [str(path) for path in hidden if _opens(path, os.O_RDONLY)]
    leaks += [str(path) for path in fixed if _opens(path, os.O_WRONLY)]
    reaches = _opens(Path(f"/proc/{parent}/mem"), os.O_RDONLY) or _opens(Path(f"/proc/{parent}/environ"), os.O_RDONLY)
    try:
        os.kill(parent, 0)
    except OSError:
        signals = False
    else:
        signals = True
    own = os.getresuid() == (user, user, user) if user else False
    users = OPEN if reaches or signals else isolation.USERS[0 if own else 1]
    return {"network": network, "user": users, "filesystem": OPEN if leaks else isolation.FILESYSTEM}


def claim_user() -> tuple[int, socket.socket | None]:
    """Return a user id, taken until this socket closes, or 0 if this process may not change its own."""
    if os.geteuid():
        return 0, None
    for user in random.SystemRandom().sample(range(USERS[0], USERS[1] + 1), USERS[1] - USERS[0] + 1):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0flashcore-ci-user-{user}")
        except OSError:
            claim.close()
        else:
            return user, claim
    raise OSError(errno.EAGAIN, "other candidates have all user ids")


def interpreter_paths() -> list[Path]:
    """Return the folders that this interpreter imports from, without the checkout's."""
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()}
    return sorted(Path(folder) for folder in folders if folder)


def _is_public(folder: Path) -> bool:
    """Tell whether everybody may come to a folder, and read what is directly in it. One that is absent hides nothing."""
    try:
        inside = [path for path in folder.iterdir() if path.exists()] if folder.is_dir() else []
        modes = [(path.stat().st_mode & 0o5, 5 if path.is_dir() else 4) for path in (folder, *inside, *folder.resolve().parents)]
        return all(mode & needed == needed for mode, needed in modes)
    except FileNotFoundError:
        return True


def _public_parts(folder: Path) -> Iterator[Path]:
    """Yield the files that everybody may read. What a link names has its own rule."""
    for path in folder.iterdir() if folder.stat().st_mode & 0o5 == 0o5 else ():  # noqa: PLR2004 - to list and to enter
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                yield from _public_parts(path)
            elif stat.S_ISREG(mode) and mode & 0o4:
                yield path


def _become(user: int, *, reads_all: bool) -> None:
    """Change the user. ``reads_all``: it may read what root may, because packages are root's: landlock decides what that is."""
    _check(_libc.prctl(KEEP_CAPABILITIES, int(reads_all), 0, 0, 0), "keepcaps")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if reads_all:
        _keep_reading()
    _check(_libc.prctl(SET_DUMPABLE, 1, 0, 0, 0), "dumpable")  # else /proc/self belongs to root


def _keep_reading() -> None:
    header = ctypes.create_string_buffer(struct.pack("Ii", CAPABILITY_VERSION, 0))
    sets = ctypes.create_string_buffer(struct.pack("6I", READ_SEARCH, READ_SEARCH, READ_SEARCH, 0, 0, 0))
    _check(_libc.capset(header, sets), "capset")
    _libc.prctl(AMBIENT, RAISE, READ_SEARCH.bit_length() - 1, 0, 0)  # also for the compiler that a framework starts


def _leave_network() -> None:
    if _libc.unshare(NEW_NET | NEW_IPC) == 0:
        return
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(NEW_USER | NEW_NET) != 0:
        return  # the filter refuses sockets, and ``verify`` sees whether it does
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _restrict_files(readable: Sequence[Path], writable: Path, *, is_public: bool) -> None:
    version = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return  # ``verify`` sees what is open
    handled = RIGHTS[max(key for key in RIGHTS if key <= version)]
    scoped, net = (3 if version >= SCOPE_VERSION else 0), (3 if version >= NET_VERSION else 0)
    size = 24 if version >= SCOPE_VERSION else 16 if version >= NET_VERSION else 8
    attributes = ctypes.create_string_buffer(struct.pack("QQQ", handled, net, scoped))
    ruleset = _check(_libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "landlock")
    read = EXECUTE | READ_FILE | READ_DIR
    kernel = [path for path in Path("/proc").iterdir() if not path.name.isdigit() and not path.is_symlink()]
    system = [Path(name) for name in SYSTEM if is_public or name not in PARTLY]
    if not is_public:
        system += [
            *_public_parts(Path("/etc")),
            *(path for path in Path("/opt").glob("*") if not path.is_symlink() and _is_public(path)),
        ]
    for path in (*system, *kernel, *interpreter_paths(), *readable):
        _allow(ruleset, path, read)
    for device in (path for pattern in DEVICES for path in Path("/dev").glob(pattern)):
        _allow(ruleset, device, handled & (READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE))
    for name in ("/dev", *PARTLY):  # programs look for their settings there
        _allow(ruleset, Path(name), READ_DIR)
    _allow(ruleset, Path("/proc/self").resolve(), read | WRITE_FILE | handled & TRUNCATE)  # thread names are written
    _allow(ruleset, writable, handled)
    _check(_libc.syscall(RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    if not path.exists():
        return
    if not path.is_dir():
        rights &= EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
    _check(_libc.syscall(ADD_RULE, ruleset, 1, rule, 0), f"landlock on {path}")
    os.close(descriptor)


def _filter_calls() -> None:
    """Install a filter that answers EPERM to the calls in DENIED, and to every socket but local ones."""
    machine = os.uname().machine
    if machine not in DENIED:
        return
    architecture, socket_call = SOCKET[machine]
    load, equal, ret = 0x20, 0x15, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
    lines = [(load, 0, 0, 4), (equal, 1, 0, architecture), (ret, 0, 0, kill), (load, 0, 0, 0)]
    if machine == "x86_64":  # calls of the x32 architecture have other numbers
        lines += [(0x35, 0, 1, 0x40000000), (ret, 0, 0, refuse)]
    for number, answer in (*((number, refuse) for number in DENIED[machine]), (IGNORED[machine], refuse & ~0xFFFF)):
        lines += [(equal, 0, 1, number), (ret, 0, 0, answer)]
    lines += [(equal, 0, 4, socket_call), (load, 0, 0, 16), (equal, 2, 0, UNIX), (equal, 1, 0, NETLINK), (ret, 0, 0, refuse)]
    lines += [(ret, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
    _check(_libc.prctl(SET_SECCOMP, FILTER_MODE, program, 0, 0), "seccomp")


def _reaches_network() -> bool:
    """Tell whether a datagram would have a route. Nothing is sent."""
    for address in ("192.0.2.1", "127.0.0.1"):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.connect((address, 9))
        except OSError:
            continue
        return True
    return False


def _opens(path: Path, flags: int) -> bool:
    try:
        os.close(os.open(path, flags | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _check(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result
