"""Makes the repository's own ``.venv`` and goes on inside it. Uses the standard library only.

Versions are fixed by ``scripts/locks/wdsflow.txt``, given to the installer as constraints: what a
machine does not need (CUDA libraries next to a CPU build of PyTorch, say) is then not installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
LOCK = ROOT / "scripts" / "locks" / "wdsflow.txt"
# webdataset 1.x, next to the 0.2.86 that OpenCLIP wants.
WEBDATASET1 = ROOT / ".test" / "webdataset1"
WEBDATASET1_LOCK = ROOT / "scripts" / "locks" / "webdataset1.txt"
# The lowest version that wdsflow allows.
LOWEST_DUCKDB = ROOT / ".test" / "duckdb"
LOWEST_DUCKDB_LOCK = ROOT / "scripts" / "locks" / "duckdb.txt"
# An environment of its own, for what is measured next to it.
JUICER = ROOT / ".test" / "data-juicer"
JUICER_LOCK = ROOT / "scripts" / "locks" / "data-juicer.txt"
# Sphinx wants other versions than what is tested.
SPHINX = ROOT / ".test" / "sphinx"
SPHINX_LOCK = ROOT / "scripts" / "locks" / "docs.txt"

# What each script installs, as arguments of the installer.
PURPOSES = {
    "demo": ["--editable", ".[openclip,clip,ocr]"],
    # The installer; what it installs has an environment of its own.
    "docs": ["--group", "pyproject.toml:build"],
    "test": ["--editable", ".[openclip]", "--group", "pyproject.toml:dev"],
}
FIRST_TIME = (
    "Installing into .venv, which takes some minutes the first time, nearly all of it for PyTorch"
)
AGAIN = "Bringing .venv up to date"


def python() -> Path:
    """Return the interpreter of ``.venv``."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def enter(purpose: str) -> None:
    """Make sure that the calling script runs inside ``.venv``.

    Returns immediately if it does. Otherwise makes the environment, and runs the script again
    inside it.
    """
    if (
        Path(sys.prefix).resolve() == VENV.resolve()
        and os.environ.get("_WDSFLOW_SCRIPT") == purpose
    ):
        return
    ensure(purpose)
    os.environ["_WDSFLOW_SCRIPT"] = purpose
    # By file name, so that sys.path[0] is scripts/ again;
    # not through PYTHONPATH, which children would inherit.
    sys.stdout.flush()
    os.execv(python(), [str(python()), str(Path(sys.argv[0]).resolve()), *sys.argv[1:]])  # noqa: S606


def ensure(purpose: str) -> None:
    """Make ``.venv`` hold what ``purpose`` needs. Does nothing if it does already."""
    stamp = VENV / f"wdsflow-{purpose}.stamp"
    fingerprint = _fingerprint(purpose)
    if stamp.is_file() and stamp.read_text() == fingerprint and python().exists():
        return
    # What another checkout uses would change under it.
    if VENV.is_symlink():
        sys.exit(
            f"{VENV} is a link to {VENV.resolve()}: remove it, and run this again to get an environment here"
        )
    start = time.monotonic()
    print(f"{AGAIN if stamp.is_file() else FIRST_TIME} ... ", end="", flush=True)
    if not _has_pip():
        _make_venv()
    log = VENV / "install.log"
    with log.open("w") as out:
        pip = [str(python()), "-m", "pip", "install", "--disable-pip-version-check"]
        _call([*pip, "--constraint", str(LOCK), "uv"], out, log)
        uv = [str(python()), "-m", "uv", "pip", "install", "--python", str(python())]
        constraints = ["--constraint", str(LOCK), "--build-constraint", str(LOCK)]
        # Compiled once: where PYTHONDONTWRITEBYTECODE is set, each process would else compile torch
        # again for 8 s.
        _call([*uv, "--compile-bytecode", *constraints, *PURPOSES[purpose]], out, log)
    stamp.write_text(fingerprint)
    print(f"done in {time.monotonic() - start:.0f} s")


def ensure_webdataset1() -> Path:
    """Install webdataset 1.x into a separate folder, and return the folder.

    Put the folder first on PYTHONPATH.
    """
    return _ensure_beside(WEBDATASET1, WEBDATASET1_LOCK)


def ensure_lowest_duckdb() -> Path:
    """Install the lowest supported DuckDB into a separate folder, and return the folder.

    Put the folder first on PYTHONPATH.
    """
    return _ensure_beside(LOWEST_DUCKDB, LOWEST_DUCKDB_LOCK)


def ensure_juicer() -> Path:
    """Make an environment with Data-Juicer alone; return its interpreter."""
    return _ensure_alone(JUICER, JUICER_LOCK)


def ensure_sphinx() -> Path:
    """Make an environment with Sphinx alone; return its interpreter."""
    return _ensure_alone(SPHINX, SPHINX_LOCK)


def _ensure_alone(folder: Path, lock: Path) -> Path:
    """Make an environment with what a lock file lists; return its interpreter."""
    stamp = folder / "wdsflow.stamp"
    interpreter = folder / "bin" / "python"
    requirements = lock.read_text()
    is_current = stamp.is_file() and stamp.read_text() == requirements and interpreter.exists()
    if not is_current:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "install.log"
        with log.open("w") as out:
            uv = [str(python()), "-m", "uv"]
            _call(
                [*uv, "venv", "--allow-existing", "--python", str(python()), str(folder)], out, log
            )
            install = [*uv, "pip", "install", "--compile-bytecode", "--python", str(interpreter)]
            _call([*install, "--requirement", str(lock)], out, log)
        stamp.write_text(requirements)
    return interpreter


def _ensure_beside(folder: Path, lock: Path) -> Path:
    """Install what a lock file lists, without what it needs, into a folder; return the folder."""
    stamp = folder / "wdsflow.stamp"
    requirements = lock.read_text()
    is_current = stamp.is_file() and stamp.read_text() == requirements
    if not is_current:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "install.log"
        with log.open("w") as out:
            uv = [str(python()), "-m", "uv", "pip", "install", "--python", str(python())]
            options = ["--no-deps", "--upgrade", "--target", str(folder)]
            _call([*uv, *options, "--requirement", str(lock)], out, log)
        stamp.write_text(requirements)
    return folder


def _fingerprint(purpose: str) -> str:
    """Return a digest of all that decides what is installed for a purpose."""
    # What follows this part of pyproject.toml does not decide it.
    project = (ROOT / "pyproject.toml").read_text().partition("[tool.pytest")[0]
    parts = [sys.version, *PURPOSES[purpose], LOCK.read_text(), project, str(ROOT)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _has_pip() -> bool:
    if not python().exists():
        return False
    check = "import sys, pip; sys.exit(sys.version_info < (3, 10))"
    return subprocess.run([python(), "-c", check], capture_output=True, check=False).returncode == 0


def _make_venv() -> None:
    """Make ``.venv`` with pip in it.

    Also works on Debian, where ensurepip is in a separate package.
    """
    with_pip = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", VENV], capture_output=True, text=True, check=False
    )
    if with_pip.returncode == 0:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV], check=True)
    # The pip of the machine can install pip into another environment.
    install = [sys.executable, "-m", "pip", "--python", str(python()), "install", "--quiet", "pip"]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        sys.exit(
            f"\nCould not make {VENV}:\n{with_pip.stdout}{with_pip.stderr}{installed.stderr}"
            "On Debian and Ubuntu `apt install python3-venv` helps."
        )


def _call(run: list[str], out: object, log: Path) -> None:
    # uv leaves lock files in the folder for temporary files.
    with tempfile.TemporaryDirectory(prefix="wt-") as temporary:
        environment = {**os.environ, "TMPDIR": temporary}
        done = subprocess.run(
            run, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, check=False, env=environment
        )  # type: ignore[call-overload]
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        sys.exit(f"failed.\n\n{' '.join(run)}\n\n{tail}\n\nThe whole output is in {log}.")
