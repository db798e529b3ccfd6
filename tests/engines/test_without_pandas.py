"""Our processes do not import pandas through Arrow, other processes may.

Arrow imports pandas if it is installed.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("new_interpreters")

pytest.importorskip("pandas")

CODE = """
import sys
from wdsflow.lazy import leave_pandas_out
leave_pandas_out()
leave_pandas_out()
ours = {"__name__": "wdsflow.some.module"}
exec("import pyarrow as pa; table = pa.table({'a': [1, None]}); found = table.to_pydict()", ours)
print(ours["found"], "pandas" in sys.modules)
import pandas, pyarrow
print(ours["table"].to_pandas()["a"].isna().tolist(), pyarrow.array(pandas.Series([1.0, None])).null_count)
"""


def test_what_we_convert_loads_no_pandas_and_what_others_convert_does() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == ["{'a': [1, None]} False", "[False, True] 1"], done.stderr


@pytest.mark.parametrize(("command", "left_out"), [("validate", True), ("train", False)])
def test_commands_leave_it_out_but_training_in_which_others_may_want_it(
    command: str, left_out: bool
) -> None:
    code = f"""
import sys
sys.argv = ["wdsflow", {command!r}, "--help"]
from wdsflow.cli.entry_point import run
try:
    run()
except SystemExit:
    print(any(type(finder).__name__ == "_LeftOut" for finder in sys.meta_path))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stdout.splitlines()[-1:] == [str(left_out)], done.stderr
