"""What holds for all tests."""

import contextlib
import gc
import json
import os
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings
from support.divided_session import DividedSession
from support.stacks import print_stacks

from tests import processes
from tests.case_names import refuse_addresses
from tests.depth import refuse_both
from tests.fork_server import forked_python, new_python, start_server, stop_server
from tests.processes import MARK, close_what_is_left_open, left_behind
from tests.processor_seconds import ProcessorSeconds
from tests.programs import Program
from tests.skips import SkipWatch, expected_skips

# The same cases each time, and no clock: what fails here was changed here. `scripts/test deep`
# draws new ones, and 1,000 of them: here they are few, because all have to end within minutes.
settings.register_profile(
    "gate",
    max_examples=20,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", parent=settings.get_profile("gate"), derandomize=False, max_examples=1_000
)
settings.load_profile("gate")

# A shell's background job ignores Ctrl-C, and so would all
# programs that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs that the tests start write as they do for users: what a program holds back and loses at
# its end is noticed.
os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that the gate gives."""
    parser.addoption(
        "--only-expected-skips",
        action="store_true",
        help="fail where a test is skipped that expected_skips.txt does not name",
    )
    parser.addoption(
        "--record-seconds",
        type=Path,
        metavar="FILE",
        help="add a line to a file for each test: its processor time, its unit and its id, with tabs in between",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the server of programs, and register the plugins.

    They record times and watch for skipped tests. With several processes, only the one that sees
    all tests watches for skips.
    """
    plugins = config.pluginmanager.get_plugins()
    # A divided session is forked later, and each fork has a server.
    if not any(isinstance(plugin, DividedSession) for plugin in plugins):
        start_server()
    seconds = config.getoption("--record-seconds")
    if seconds is not None:
        config.pluginmanager.register(ProcessorSeconds(seconds))
    if config.getoption("--only-expected-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipWatch(expected_skips()))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the Python files that hold no tests.

    They have no doctests, and to look for some, pytest would run scripts that are slow on purpose.
    """
    is_helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return is_helper or None


@pytest.hookimpl(tryfirst=True)  # before deep tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of ``sample(n)`` tests as deep, except for n of them.

    The n cases stay in the gate, and are spread evenly.
    """
    refuse_both(items)
    refuse_addresses(items)
    sampled: dict[object, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") and not item.get_closest_marker("deep"):
            sampled.setdefault((item.parent, getattr(item, "originalname", item.name)), []).append(
                item
            )
    for cases in sampled.values():
        (most,) = cases[0].get_closest_marker("sample").args  # type: ignore[union-attr]
        cases.sort(key=lambda case: case.nodeid)  # in whatever order they are run: the same ones
        stay = {round(number * (len(cases) - 1) / max(1, most - 1)) for number in range(most)}
        for number, case in enumerate(cases):
            if number not in stay:
                case.add_marker("deep")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Start the server of programs where it is not started yet, before pytest captures warnings."""
    start_server()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Unfreeze the garbage collector's objects after the tests.

    Libraries then find all their objects released. Not in a process that was forked from one with
    frozen objects.
    """
    frozen = gc.get_freeze_count()
    result = yield
    if not frozen:
        gc.unfreeze()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Freeze all objects before a test after which the garbage collector runs.

    The collector then looks only at what the test makes. Looking at all objects takes seconds.
    """
    if _leaves_open(item):
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Close what a reader leaves open, where the test allows that.

    Otherwise the collector would close it in a later test.
    """
    if _leaves_open(item):
        close_what_is_left_open()


def _leaves_open(item: pytest.Item) -> bool:
    return any("ResourceWarning" in str(mark.args) for mark in item.iter_markers("filterwarnings"))


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fail at the end where tests have left processes behind."""
    # A variable by which processes of these tests are known, whoever their parent is by then.
    os.environ[MARK] = uuid.uuid4().hex
    yield
    stop_server()
    _, left = psutil.wait_procs(left_behind(), timeout=processes.PATIENCE)
    told = []
    for each in left:
        with contextlib.suppress(psutil.Error):
            told.append(f"{each.pid}: {' '.join(each.cmdline())}")
            each.kill()
    if told:
        pytest.fail("tests have left processes behind:\n" + "\n".join(told))


@pytest.fixture(scope="module", autouse=True)
def forked_programs() -> Iterator[None]:
    """Let Python programs that tests start be forks of one that has imported PyTorch."""
    with forked_python():
        yield


@pytest.fixture
def new_interpreters() -> Iterator[None]:
    """Run the programs of a test in new interpreters.

    For tests of imports, of the start, or of the memory of a program.
    """
    with new_python():
        yield


@pytest.fixture(scope="session")
def real_readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The readers themselves, for tests of what is predicted about them and promised by advice."""
    from tests.conformance.compare import RealReaders, environments  # few tests need them

    readers = RealReaders(environments(os.environ), tmp_path_factory.mktemp("readers"))
    yield readers
    readers.close()


@pytest.fixture(scope="session")
def drive(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[list[dict[str, Any]]], list[str]]]:
    """Return a function that runs small trainings one after the other.

    They run as described in training/drive.py. The function returns the exit statuses.
    """
    script = Path(__file__).parent / "training" / "drive.py"
    program = Program(
        script, tmp_path_factory.mktemp("trainings"), {"OMP_NUM_THREADS": "1"}, path=sys.path
    )

    def run(scenarios: list[dict[str, Any]]) -> list[str]:
        program.ask(json.dumps(scenarios))
        return [program.answer().rstrip("\n") for _ in scenarios]

    yield run
    program.close()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Any:
    """Print the stacks of all processes of a test that takes too long.

    pytest-timeout itself only prints the threads of its own process.
    """
    result = yield
    fail: Any = signal.getsignal(signal.SIGALRM)

    def print_and_fail(*arguments: Any) -> None:
        print_stacks(psutil.Process(), sys.stderr)
        fail(*arguments)

    if callable(fail):
        signal.signal(signal.SIGALRM, print_and_fail)
    return result
