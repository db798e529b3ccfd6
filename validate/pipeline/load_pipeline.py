"""Find the pipeline that ``module:object`` or ``train.py:make`` names, and build it for some shards."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from wdsflow.shards.shard import Shard
from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape

from ..tracing.errors import error_text, line_of, machine_fault
from ..tracing.pipeline_steps import is_nested
from .iterables import is_map_style, is_ray


class PipelineError(Exception):
    """A pipeline cannot be found, imported or built; the message has the reason and a fix."""


def find(spec: str) -> object:
    """Import a module, or a file, and return the object in it.

    Args:
        spec: ``package.module:object`` or ``path/to/train.py:object``; dots reach into the object.

    Raises:
        PipelineError: no such module or object, or the module raises an error; the message has its line.
    """
    where, colon, name = spec.rpartition(":")
    if not (colon and where and name):
        raise PipelineError(f"{spec}: write --pipeline module:object or --pipeline train.py:make")
    module = _imported(where)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            here = ", ".join(sorted(each for each in vars(module) if not each.startswith("_"))[:12])
            raise PipelineError(f"{where} has no {name}; it has: {here or 'nothing'}")
        found = getattr(found, part)
    return found


def build(found: object, urls: Sequence[str]) -> object:
    """Return the pipeline for some shards.

    A function gets the shards as a list, with their passwords and signatures. One without a parameter is called without them; its pipeline, like any object
    that is not a function, still reads its own shards.

    Raises:
        Exception: what the function raises.
    """
    is_object = not inspect.isclass(found) and not inspect.isroutine(found)
    # A pipeline may also be callable.
    if not callable(found) or (is_object and hasattr(found, "__iter__")):
        return found
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return found(_exact(urls))
    takes_shards = any(each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in parameters)
    return found(_exact(urls)) if takes_shards else found()


def _exact(urls: Sequence[str]) -> list[str]:
    """Return what opens the shards; what is secret in it is hidden in all that this process reports."""
    exact = [url.exact if isinstance(url, Shard) else url for url in urls]
    for url in exact:
        redact(url)
    return exact


def check_made(found: object, built: object) -> None:
    """Raise PipelineError if a function returned nothing, or several pipelines instead of a list of stages."""
    name = escape(getattr(found, "__name__", type(found).__name__), 60)
    if built is None:
        raise PipelineError(f"{name} returned None: is a return missing?")
    if isinstance(built, dict):
        kind = type(built).__name__
        raise PipelineError(f"{name} returned a {kind} of {', '.join(map(repr, built))}; return one of them")
    if not isinstance(built, list | tuple):
        return
    kind, pipelines = type(built).__name__, [each for each in built if _gives_samples(each)]
    others = [each for each in built[1:] if not _gives_samples(each) and not (callable(each) or hasattr(each, "run"))]
    if len(pipelines) > 1:
        raise PipelineError(f"{name} returned a {kind} of {len(pipelines)} pipelines; return the one to judge")
    if pipelines and others:
        raise PipelineError(
            f"{name} returned a {kind} with a value of type {type(others[0]).__name__}; return the pipeline alone"
        )


def _gives_samples(thing: object) -> bool:
    iterable = hasattr(thing, "__iter__") and not callable(thing) and not isinstance(thing, str | bytes | dict)
    return iterable or is_nested(thing) or is_ray(thing) or is_map_style(thing)


def _imported(where: str) -> ModuleType:
    as_file = where.endswith(".py") or os.sep in where
    try:
        if not as_file:
            sys.path.insert(0, os.getcwd())
            return importlib.import_module(where)
        return _imported_file(Path(where))
    except PipelineError:
        raise
    except ModuleNotFoundError as error:
        if error.name in (where, where.partition(".")[0]) and not line_of(error):
            raise PipelineError(
                f"there is no module {where} here; for a file write its path: --pipeline path/to/train.py:make"
            ) from None
        raise _failed(where, error) from None
    except SyntaxError as error:
        text = f"{error.filename}:{error.lineno}: {error.msg}"
        raise PipelineError(f"{where} cannot be imported: {text}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        raise _failed(where, error) from None


def _failed(where: str, error: BaseException) -> PipelineError:
    line, fault, text = line_of(error), machine_fault(error), failure_text(error, "imported")
    why = f"{text}; {fault}: validate where it will train" if fault else text
    return PipelineError(f"{where} cannot be imported: {f'{line}: ' if line else ''}{why}")


def failure_text(error: BaseException, when: str) -> str:
    """Return a text on an error in the user's code; if it parses a command line, on missing arguments."""
    message, trace = "", error.__traceback__ if isinstance(error, SystemExit) else None
    while trace is not None and not message:
        frame, trace = trace.tb_frame, trace.tb_next
        if frame.f_globals.get("__name__") == "argparse" and frame.f_code.co_name == "error":
            message = str(frame.f_locals.get("message", ""))
    if not message:
        return error_text(error)
    lacking = message.removeprefix("the following arguments are required: ")
    if lacking != message:
        message = f"{lacking} {'are' if ',' in lacking else 'is'} required"
    return f"it parses a command line when {when} ({escape(message, 200)}): do that under if __name__ == '__main__'"


def _imported_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise PipelineError(f"there is no file {path}")
    # As Python does for a script.
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path)]
    # Ray gives the folder of the script to its workers.
    sys.modules["__main__"].__file__ = str(path.resolve())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
