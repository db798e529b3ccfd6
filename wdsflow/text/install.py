"""The command that installs missing packages into wdsflow's environment.

They are installed from the source of wdsflow itself.
"""

import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from .shell import Command, command, quote

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_EXTRA = re.compile(r";\s*extra\s*==\s*[\"']([\w.-]+)[\"']\s*$")


def install_extras(*extras: str) -> Command:
    """Return the command that installs extras of wdsflow, such as ``clip`` and ``ocr``."""
    # Slow to import, and rarely needed.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        installed = distribution("wdsflow")
    except PackageNotFoundError:
        # A checkout on the path that is not installed.
        installed = None
    return Command(f"{_installer()} {command(requirements(extras, installed))}")


def install_packages(*requirements: str) -> Command:
    """Return the command that installs packages.

    For example ``zstandard`` or ``webdataset<=0.2.86``.
    """
    return Command(f"{_installer()} {command(requirements)}")


def requirements(extras: tuple[str, ...], installed: "Distribution | None") -> list[str]:
    """Return the requirement of wdsflow with extras, for an installer.

    Its origin is the one recorded by PEP 610.

    Args:
        extras: names of extras.
        installed: wdsflow's distribution; None if it is not installed.
    """
    listed = f"[{','.join(extras)}]"
    origin = json.loads((installed and installed.read_text("direct_url.json")) or "{}")
    url = str(origin.get("url", ""))
    folder = origin.get("dir_info")
    if not url:
        checkout = Path(__file__).resolve().parents[2]
        # Its egg-info is on the path.
        inside = installed is None or Path(str(installed.locate_file(""))).resolve() == checkout
        if inside and (checkout / "pyproject.toml").is_file():
            return ["--editable", f"{checkout}{listed}"]
        return [f"wdsflow{listed}"]
    if "vcs_info" in origin:
        info = origin["vcs_info"]
        below = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
        return [
            f"wdsflow{listed} @ {info.get('vcs', 'git')}+{url}@{info.get('commit_id', '')}{below}"
        ]
    path = unquote(urlsplit(url).path) if url.startswith("file:") else ""
    # The checkout or the wheel was removed: install the requirements of its extras.
    if path and not os.path.exists(path):
        return _requirements_of(extras, (installed and installed.requires) or [])
    if folder is None:
        return [f"wdsflow{listed} @ {url}"]
    if folder.get("editable"):
        return ["--editable", f"{path}{listed}"]
    return [f"{path}{listed}"]


def _requirements_of(extras: tuple[str, ...], requires: Sequence[str]) -> list[str]:
    """Return the requirements of some extras, without their conditions."""
    requirements = []
    for requirement in requires:
        extra = _EXTRA.search(requirement)
        if extra is not None and extra[1] in extras:
            requirements.append(_EXTRA.sub("", requirement).strip())
    return requirements


def _installer() -> str:
    """Return the beginning of an install command for the running interpreter."""
    # Installers refuse the system's interpreter by default (PEP 668), but wdsflow is already
    # installed in it.
    managed = (
        sys.prefix == sys.base_prefix
        and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()
    )
    allow = " --break-system-packages" if managed else ""
    # Avoids the finder of setuptools, which warns if distutils is in use.
    if PathFinder.find_spec("pip") is not None:
        if _has_program("pip"):
            return f"pip install{allow}"
        return f"{_python()} -m pip install{allow}"
    if shutil.which("uv"):
        return f"uv pip install --python {quote(sys.executable)}{allow}"
    if PathFinder.find_spec("ensurepip") is not None:
        return f"{_python()} -m ensurepip && {_python()} -m pip install{allow}"
    return f"pip --python {quote(sys.executable)} install{allow}"


def _python() -> str:
    return "python" if _has_program("python") else quote(sys.executable)


def _has_program(name: str) -> bool:
    """Return whether a shell finds the running interpreter's program of this name."""
    path = shutil.which(name)
    if path is None:
        return False
    return os.path.dirname(os.path.abspath(path)) == os.path.dirname(sys.executable)
