"""Checks of an installed wheel, run outside the repository.

The environment is fresh and holds only wdsflow's wheel and configobj.
"""

import importlib
import io
import json
import pkgutil
import subprocess
import sys
import tarfile
from pathlib import Path

# Packages that are not installed here, and what cannot be imported without them.
EXTRA = {
    "torch": ("wdsflow.training.", "wdsflow.stages.scores.model."),
    "torchvision": ("wdsflow.training.", "wdsflow.stages.scores.model."),
    "open_clip_train": ("wdsflow.training.",),
    "aiobotocore": ("wdsflow.shards.source.s3_session",),
    "botocore": ("wdsflow.shards.source.s3_session",),
}


def every_module_imports() -> None:
    """Import all of the installed package: a folder missing from the wheel shows here.

    Without the extra `openclip`, what makes batches cannot be imported; nothing else may be
    missing, nor elsewhere.
    """
    import wdsflow

    assert Path(str(wdsflow.__file__)).is_relative_to(sys.prefix), wdsflow.__file__
    names = [module.name for module in pkgutil.walk_packages(wdsflow.__path__, "wdsflow.")]
    without = []
    for name in names:
        if name.endswith("__main__"):
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(EXTRA.get(error.name or "", ("\0",))):
                raise
            without.append(name)
    print(f"{len(names)} modules import, but for {len(without)} that need PyTorch or OpenCLIP")


def the_other_validate_is_whole() -> None:
    """The `validate` that configobj's users import is still configobj's."""
    theirs = importlib.import_module("validate")
    assert theirs.Validator().check("integer", "3") == 3
    assert importlib.import_module("wdsflow.validate").__name__ == "wdsflow.validate"


def the_command_runs() -> None:
    """`wdsflow` answers, and validates a shard."""
    command = str(Path(sys.executable).parent / "wdsflow")
    shown = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "validate" in shown, shown
    with tarfile.open("000.tar", "w") as tar:
        for name, data in (("0.jpg", bytes(10)), ("0.json", b'{"caption": "a tree"}')):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    run = [command, "validate", "000.tar", "--for", "open-clip-3.3", "--format", "json"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert json.loads(done.stdout)["verdicts"][0]["outcome"] == "stalls", done.stdout


PROGRAM = """
import wdsflow

most = 3


def longest(words):
    return [word[:most] for word in words]


def counted(letter):
    return lambda words: [word.count(letter) for word in words]


print(*wdsflow.bounded_map(["tree", "oak"], longest, "2GiB", 1), *wdsflow.bounded_map(["tree"], counted("e"), "2GiB", 1))
"""


def a_script_maps_rows() -> None:
    """`bounded_map` takes a function that a script defines, and a closure."""
    Path("program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "tre oak 2\n", done.stderr


if __name__ == "__main__":
    every_module_imports()
    a_script_maps_rows()
    the_other_validate_is_whole()
    the_command_runs()
