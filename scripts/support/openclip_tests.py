"""OpenCLIP's own tests of its data loading, on wdsflow's feed."""

import os
import subprocess
import sys
from pathlib import Path

from .environment import ROOT

HEAD = "WDSFLOW_OPEN_CLIP_HEAD"
# Of shards: those of tables, models and losses have nothing to do with the feed.
_FILES = ("test_wds.py", "test_legacy_data.py", "test_num_shards.py")


def run() -> int:
    """Run them, and return pytest's status; 2 if there is no checkout of OpenCLIP."""
    sources = os.environ.get(HEAD, "")
    tests = Path(sources).resolve().parent / "tests"
    files = [name for name in _FILES if (tests / name).is_file()]
    if not sources or not files:
        print(
            f"{HEAD} must name the folder src of a checkout of OpenCLIP, with its folder tests next to it"
        )
        print(f"  {HEAD}=open_clip/src scripts/conformance --openclip-tests")
        return 2
    path = [str(Path(sources).resolve()), str(ROOT / "scripts")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "support.openclip_on_our_feed",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, *files],
        cwd=tests,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        check=False,
    ).returncode
