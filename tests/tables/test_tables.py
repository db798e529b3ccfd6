"""Joins, sorts and groups beyond memory."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from wdsflow.tables import Tables, TablesError, name

NUMBERS = "SELECT range AS n, repeat(hash(range)::VARCHAR || hash(range + 1)::VARCHAR, 8) AS text FROM range(300000)"


def test_values_come_back_as_they_were_added(tmp_path: Path):
    texts = ["", "é😀", "a\0b", None, "\x01\n"]
    parts = [b"", b"\xff\0", None, b"\\x41", b"a"]
    with Tables(tmp_path) as tables:
        tables.run("CREATE TABLE t (n UBIGINT, text VARCHAR, bytes BLOB)")
        tables.add(
            "t", n=np.arange(5, dtype=np.uint64) + np.uint64(2**64 - 5), text=texts, bytes=parts
        )
        tables.add("t", n=np.arange(5, dtype=np.uint64), text=[None] * 5, bytes=[None] * 5)
        found = list(tables.rows("SELECT * FROM t WHERE n > 4 ORDER BY n"))
        assert tables.one("SELECT count(*), count(text) FROM t WHERE n < ?", 5) == (5, 0)
    assert found == [
        (2**64 - 5 + at, text, part)
        for at, (text, part) in enumerate(zip(texts, parts, strict=True))
    ]


def test_a_result_is_read_while_other_statements_run(tmp_path: Path):
    with Tables(tmp_path) as tables:
        tables.run("CREATE TABLE t AS SELECT range AS n FROM range(20000)")
        tables.run("CREATE TABLE other (n BIGINT)")
        for (number,) in tables.rows("SELECT n FROM t ORDER BY n"):
            if number % 5000 == 0:
                tables.run("INSERT INTO other VALUES (?)", number)
        assert list(tables.rows("SELECT n FROM other ORDER BY n")) == [
            (0,),
            (5000,),
            (10000,),
            (15000,),
        ]


def test_more_rows_than_memory_holds_are_sorted_and_nothing_is_left(tmp_path: Path):
    with Tables(tmp_path, memory=1) as tables:
        tables.run(f"CREATE TABLE t AS {NUMBERS}")
        texts = [text for (text,) in tables.rows("SELECT text FROM t ORDER BY text")]
        assert list((tmp_path / "tables").iterdir())
    assert texts == sorted(texts)
    assert len(texts) == 300_000
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_full_disk_is_an_error_of_the_system_that_names_the_folder(tmp_path: Path):
    before, limit = (
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        resource.getrlimit(resource.RLIMIT_FSIZE),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limit[1]))
    try:
        with Tables(tmp_path, memory=1) as tables, pytest.raises(TablesError) as caught:
            tables.run(f"CREATE TABLE t AS {NUMBERS}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path))


def test_a_statement_that_needs_more_memory_than_it_may_have_is_an_error_of_the_system(
    tmp_path: Path,
):
    with Tables(tmp_path, memory=1) as tables, pytest.raises(TablesError) as caught:
        tables.one(f"SELECT list(text) FROM ({NUMBERS})")
    assert caught.value.errno == errno.ENOMEM


@pytest.fixture
def _own_interrupt() -> Iterator[None]:
    """Use Python's own handler of SIGINT.

    A library that an earlier test used may have installed another one.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_own_interrupt")
def test_a_signal_ends_a_statement_and_the_next_one_runs(tmp_path: Path):
    with Tables(tmp_path) as tables:
        tables.run("SELECT 1")
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            tables.run("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
        assert tables.one("SELECT 1") == (1,)


def test_names_of_columns_are_taken_as_they_are(tmp_path: Path):
    strange = 'a "b"; DROP TABLE t --'
    with Tables(tmp_path) as tables:
        tables.run(f"CREATE TABLE t ({name(strange)} VARCHAR)")
        tables.add("t", anything=["x"])
        assert tables.one(f"SELECT {name(strange)} FROM t") == ("x",)


@pytest.mark.usefixtures("new_interpreters")
def test_importing_the_room_imports_no_library():
    code = "import sys, wdsflow.tables; print({'duckdb', 'numpy', 'pyarrow'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


@pytest.mark.usefixtures("new_interpreters")
def test_a_long_statement_draws_nothing_where_python_runs_no_file(tmp_path: Path):
    code = f"""
from pathlib import Path
from wdsflow.process_database import connection
from wdsflow.tables import Tables
draws = "SELECT current_setting('enable_progress_bar') AS draws"
with Tables(Path({str(tmp_path)!r})) as tables:
    tables.run(f"CREATE TABLE settings AS {{draws}}")
    print(tables.one("SELECT draws FROM settings"))
print(connection(()).execute(draws).fetchone())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(False,)\n(False,)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="others do not limit addresses")
def test_too_few_addresses_are_an_error_of_the_system_and_not_the_end_of_the_process(
    tmp_path: Path,
):
    code = f"""
import resource
from pathlib import Path
from wdsflow.tables import Tables, TablesError
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (900 << 20, hard))
try:
    with Tables(Path({str(tmp_path)!r})) as tables:
        pass
except TablesError as error:
    print(error.errno, error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"{errno.ENOMEM} the limit of 900 MiB on the address space is too low for a join or sort; "
        "ulimit -v unlimited lifts it\n"
    )
