"""Python programs that tests start, as forks of a process that has imported what is large.

PyTorch takes nearly two seconds of processor time to import, and hundreds of programs would import
it. A program that is forked here has the arguments, variables, folder, descriptors, session,
command line and parent that ``subprocess.Popen`` asks for. What differs is that modules are loaded
already, so tests of imports, start-up and memory do not use it.

    with forked_python(): subprocess.Popen([sys.executable, "-c", "import torch"])

The server is a child of the test process, and so are the programs that it forks: the kernel has a
flag for that.
"""

import _warnings
import array
import atexit
import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import importlib
import logging
import os
import pickle
import platform
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from support.forked_pytest import end

# What most programs of tests import. Not webdataset, as programs choose its version by PYTHONPATH,
# nor pyarrow, which starts a thread.
PRELOADED = ("torch", "torchvision", "open_clip", "duckdb", "PIL.Image")
# Variables that an interpreter or a library reads once, when it starts. Not those that only change
# how much memory and time a program takes: MALLOC_*, OMP_WAIT_POLICY.
READ_AT_START = (
    "PYTHON",
    "LD_",
    "OMP_NUM_THREADS",
    "MKL_",
    "CUDA_",
    "TORCH",
    "PYTORCH",
    "LANG",
    "LC_",
    "COVERAGE_",
    "HF_",
)
# Variables, by their full names, that may differ in a fork all the same: of the first two the folders are
# compared, and the last is a folder that PyTorch sets when a library imports its compiler.
NOT_COMPARED = (b"PYTHONPATH", b"PYTHONSAFEPATH", b"TORCHINDUCTOR_CACHE_DIR")
NAME = "wdsflow-tests-fork-server"
_SIZE = struct.Struct("<q")
# The number of the call of the kernel.
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT = 0x8000
_PR_SET_MM, _PR_SET_MM_MAP = 35, 14
_PYTHON = ctypes.PyDLL(None)
# Objects that must not be released: memory that the system shows, streams whose descriptors stay
# open.
_REFERENCES: list[Any] = []
_server: "_ForkServer | None" = None
# The process that has tried to start a server: forks of it try for themselves.
_tried_by: int | None = None


class _Start(NamedTuple):
    """A program to start.

    ``numbers``: the file descriptor numbers that the program gets for the descriptors passed with
    it.
    """

    arguments: list[str]
    folder: str
    environment: dict[bytes, bytes]
    numbers: list[int]
    new_session: bool


def start_server() -> None:
    """Fork the server, unless this process has already tried.

    Linux only: on other systems, programs start in the usual way.
    """
    global _server, _tried_by  # noqa: PLW0603 - one for each test process
    if _tried_by == os.getpid():
        return
    _tried_by = os.getpid()
    _server = None
    if sys.platform != "linux" or platform.machine() not in _CLONE:
        return
    if not hasattr(subprocess, "_fork_exec"):
        return
    # Pipelines whose process has loaded Ray start a
    # cluster: no file of tests may import it at its top.
    if "ray" in sys.modules:
        return
    server = _ForkServer()
    if server.works:
        _server = server
    else:
        server.close()


def stop_server() -> None:
    """End the server; programs that it has started live on."""
    global _server  # noqa: PLW0603
    if _server is not None and _server.owner == os.getpid():
        _server.close()
    _server = None


@contextlib.contextmanager
def forked_python() -> Iterator[None]:
    """Let the Python programs that this process starts be forks of the server."""
    started = subprocess._fork_exec if _server is not None else None  # type: ignore[attr-defined]
    if started is None or started == _server.fork_exec:
        yield
        return
    subprocess._fork_exec = _server.fork_exec  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess._fork_exec = started  # type: ignore[attr-defined]


@contextlib.contextmanager
def new_python() -> Iterator[None]:
    """Start Python programs as new interpreters, even inside ``forked_python``."""
    if _server is None:
        yield
        return
    started = subprocess._fork_exec  # type: ignore[attr-defined]
    subprocess._fork_exec = _server.exec  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess._fork_exec = started  # type: ignore[attr-defined]


class _ForkServer:
    def __init__(self) -> None:
        # Sets LD_LIBRARY_PATH when it is imported: later, programs that a test starts would not have the
        # variables of the server, and be new interpreters.
        with contextlib.suppress(ImportError):
            importlib.import_module("cv2")
        self.owner = os.getpid()
        self.exec = subprocess._fork_exec  # type: ignore[attr-defined]
        self._lock = threading.Lock()
        self._connection, server_end = socket.socketpair()
        self._process = os.fork()
        if not self._process:
            self._connection.close()
            _serve(server_end)
        server_end.close()
        self.works = _SIZE.unpack(_read(self._connection, _SIZE.size)) == (1,)
        self._variables: dict[bytes, bytes] = dict(os.environb)
        loaded = (*sys.modules, *PRELOADED)
        self._packages = frozenset(name.partition(".")[0] for name in loaded)

    def close(self) -> None:
        """End it, and wait for its end."""
        # Processes that a test has left behind may hold the connection: to close it is not enough.
        self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        os.waitpid(self._process, 0)

    def fork_exec(self, arguments: list[Any], executables: Any, *rest: Any) -> int:
        """Do what ``_posixsubprocess.fork_exec`` does; return the number of the process."""
        (
            close_fds,
            inherited,
            folder,
            variables,
            stdin,
            _,
            _,
            stdout,
            _,
            stderr,
            _,
            error_pipe,
            _,
            new_session,
        ) = rest[:14]
        process_group, group, groups, user, umask, prepare, *_ = rest[14:]
        words = [os.fsdecode(word) for word in arguments]
        environment = dict(os.environb)
        if variables is not None:
            environment = dict(variable.split(b"=", 1) for variable in variables)
        working_folder = os.getcwd() if folder is None else os.fsdecode(folder)
        has_usual_options = (
            close_fds
            and process_group < 0
            and umask < 0
            and (group, groups, user, prepare) == (None,) * 4
        )
        if (
            not has_usual_options
            or os.getpid() != self.owner
            or not os.path.isdir(working_folder)
            or not self._can_run(words, environment)
        ):
            return int(self.exec(arguments, executables, *rest))
        streams: list[int] = []
        for number, descriptor in enumerate((stdin, stdout, stderr)):
            # Without one, the program gets the stream of this process.
            streams.append(number if descriptor < 0 else descriptor)
        others = [number for number in inherited if number not in (0, 1, 2, error_pipe)]
        numbers = [0, 1, 2, *others]
        request = _Start(words, working_folder, environment, numbers, bool(new_session))
        pid = self._start(request, [*streams, *others])
        if pid <= 0:
            return int(self.exec(arguments, executables, *rest))
        return pid

    def _can_run(self, words: list[str], environment: dict[bytes, bytes]) -> bool:
        """Return whether a fork would behave as a new interpreter."""
        runs_code = len(words) > 2 and words[1] in ("-c", "-m")
        runs_file = len(words) > 1 and words[1].endswith(".py") and os.path.isfile(words[1])
        if words[0] != sys.executable or not (runs_code or runs_file):
            return False
        prefixes = tuple(prefix.encode() for prefix in READ_AT_START)
        for name in environment.keys() | self._variables.keys():
            if name in NOT_COMPARED or not name.startswith(prefixes):
                continue
            if environment.get(name) != self._variables.get(name):
                return False
        # Folders with other versions of packages that the server has loaded, such as webdataset.
        for entry in set(_entries(environment)) - set(sys.path):
            if os.path.isdir(entry):
                names = {name.partition(".")[0] for name in os.listdir(entry)}
                if not names.isdisjoint(self._packages):
                    return False
        return True

    def _start(self, request: _Start, descriptors: list[int]) -> int:
        """Return the number of the program, -1 if it was not forked."""
        data = pickle.dumps(request)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        with self._lock:
            self._connection.sendmsg([_SIZE.pack(len(data))], [rights])
            self._connection.sendall(data)
            (pid,) = _SIZE.unpack(_read(self._connection, _SIZE.size))
        return int(pid)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _serve(connection: socket.socket) -> NoReturn:
    """In the server: fork programs until the test process closes the connection."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    _forget_pytest()
    connection.sendall(_SIZE.pack(_show([NAME], dict(os.environb))))
    is_preloaded = False
    status = 1
    try:
        while True:
            head, descriptors, _, _ = socket.recv_fds(connection, _SIZE.size, 64)
            if not head:
                status = 0
                break
            request = pickle.loads(_read(connection, *_SIZE.unpack(head)))
            # Not before the first request: most files of tests start no such program.
            if not is_preloaded:
                _preload()
                is_preloaded = True
            # The fork of a process with threads may wait for a lock of theirs.
            is_single_threaded = len(os.listdir("/proc/self/task")) == 1
            pid = _fork_sibling() if is_single_threaded else -1
            if not pid:
                # Its descriptor is closed with all others.
                connection.detach()
                signal.signal(signal.SIGINT, interrupt)
                _run(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            connection.sendall(_SIZE.pack(pid))
    finally:
        os._exit(status)


def _preload() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()


def _fork_sibling() -> int:
    """Fork a process whose parent is that of this one; return its number, and 0 in it.

    ``os.fork`` cannot do that. It does what ``os.fork`` does, but for the handlers of C libraries.
    Their threads and locks are the reason for those, and this process has one thread and holds no
    lock.
    """
    _PYTHON.PyOS_BeforeFork()
    pid = _PYTHON.syscall(_CLONE[platform.machine()], _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid:
        _PYTHON.PyOS_AfterFork_Parent()
    else:
        _PYTHON.PyOS_AfterFork_Child()
    return int(pid)


def _forget_pytest() -> None:
    """Undo what pytest has set in this process."""
    faulthandler.disable()
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    # Those of the interpreter, and of what was imported before pytest.
    warnings.filters[:] = _warnings.filters  # type: ignore[attr-defined,index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
    # What was registered until now belongs to the test process.
    atexit._clear()


def _run(request: _Start, descriptors: list[int]) -> NoReturn:
    """Become the program."""
    if request.new_session:
        os.setsid()
    _renumber_descriptors(descriptors, request.numbers)
    os.chdir(request.folder)
    os.environ.clear()
    os.environb.update(request.environment)
    _show(request.arguments, request.environment)
    _open_streams()
    _, kind, *words = request.arguments
    status: object = 0
    try:
        if kind == "-c":
            sys.argv = ["-c", *words[1:]]
            _set_path("")
            module = types.ModuleType("__main__")
            module.__dict__["__builtins__"] = __builtins__
            sys.modules["__main__"] = module
            exec(compile(words[0], "<string>", "exec"), module.__dict__)
        elif kind == "-m":
            sys.argv = ["-m", *words[1:]]
            _set_path(os.getcwd())
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [kind, *words]
            _set_path(str(Path(kind).resolve().parent))
            runpy.run_path(kind, run_name="__main__")
    except SystemExit as error:
        status = error.code
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        _flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if status is not None and not isinstance(status, int):
        sys.stderr.write(f"{status}\n")
        status = 1
    end(status or 0)


def _renumber_descriptors(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give descriptors the numbers by which the program knows them, and close all others."""
    # First to numbers that none of them has.
    first_free = max(numbers) + 1
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, first_free) for descriptor in descriptors]
    for copy, number in zip(copies, numbers, strict=True):
        os.dup2(copy, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in numbers:
            # The descriptor of the listing is closed already.
            with contextlib.suppress(OSError):
                os.close(int(name))


def _open_streams() -> None:
    # An object that is released closes its descriptor.
    _REFERENCES.extend(
        (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    )
    streams = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - to the end of the program
    errors = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = (*streams, errors)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = (*streams, errors)  # type: ignore[misc]


def _entries(environment: Mapping[bytes, bytes]) -> list[str]:
    """Return the folders of PYTHONPATH."""
    path = os.fsdecode(environment.get(b"PYTHONPATH", b""))
    return [entry for entry in path.split(os.pathsep) if entry]


def _set_path(first: str) -> None:
    """Set the path on which modules are searched to that of a new interpreter."""
    prefixes = tuple({sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix})
    added = _entries(os.environb)
    installed = [entry for entry in sys.path if entry.startswith(prefixes) and entry not in added]
    sys.path[:] = [*added, *installed]
    if not os.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, first)


def _show(arguments: Sequence[str], environment: Mapping[bytes, bytes]) -> bool:
    """Set the command line and environment that the system shows for this process.

    Returns whether that works: it needs Linux 3.18, and no privileges.
    """
    words = b"".join(os.fsencode(word) + b"\0" for word in arguments)
    variables = b"".join(name + b"=" + value + b"\0" for name, value in environment.items())
    memory = ctypes.create_string_buffer(words + variables)
    _REFERENCES.append(memory)
    start = ctypes.addressof(memory)
    middle = start + len(words)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # start_code, end_code, start_data, end_data and
    # start_brk: the first field here is the third of proc(5).
    layout = [int(fields[number - 3]) for number in (26, 27, 45, 46, 47)]
    _PYTHON.sbrk.restype = ctypes.c_void_p
    layout += [_PYTHON.sbrk(0), int(fields[28 - 3]), start, middle, middle, middle + len(variables)]
    # Neither another auxiliary vector nor another executable.
    whole = struct.pack("=11QQIi", *layout, 0, 0, -1)
    status = _PYTHON.prctl(
        _PR_SET_MM, _PR_SET_MM_MAP, whole, ctypes.c_ulong(len(whole)), ctypes.c_ulong(0)
    )
    return bool(status == 0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
