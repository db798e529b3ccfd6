"""Finds the pipeline of the user, and builds it for some shards.

It is named as ``module:object`` or ``train.py:make``.
"""

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

from ...tracing.errors import error_text, line_of
from ...tracing.machine_faults import machine_fault
from ...tracing.pipeline_stages import is_nested
from .iterables import is_map_style, is_ray

# Names of a module that a message lists.
_MOST_NAMES = 12
_MOST_NAME_LETTERS, _MOST_MESSAGE_LETTERS = 60, 200


class PipelineError(Exception):
    """A pipeline cannot be found, imported or built; the message has the reason and a fix."""


def load_object(spec: str) -> object:
    """Import a module, or a file, and return the object in it.

    Args:
        spec: ``package.module:object`` or ``path/to/train.py:object``; dots reach into the object.

    Raises:
        PipelineError: no such module or object, or the module raises an error; the message has its
            line.
    """
    module_name, colon, object_path = spec.rpartition(":")
    if not (colon and module_name and object_path):
        raise PipelineError(f"{spec}: write --pipeline module:object or --pipeline train.py:make")
    module = _import_module(module_name)
    result: object = module
    for name in object_path.split("."):
        if not hasattr(result, name):
            public_names = sorted(name for name in vars(module) if not name.startswith("_"))
            listed_names = ", ".join(public_names[:_MOST_NAMES]) or "nothing"
            raise PipelineError(f"{module_name} has no {object_path}; it has: {listed_names}")
        result = getattr(result, name)
    return result


def build(user_object: object, urls: Sequence[str]) -> object:
    """Return the pipeline for some shards.

    A function gets the shards as a list, with their passwords and signatures. One without a
    parameter is called without them; its pipeline, like any object that is not a function, still
    reads its own shards.

    Args:
        user_object: the object that the user named: a function, a class, or a pipeline.
        urls: the shards.

    Raises:
        Exception: what the function raises.
    """
    is_function = inspect.isclass(user_object) or inspect.isroutine(user_object)
    # A pipeline may be callable as well.
    is_pipeline = not is_function and hasattr(user_object, "__iter__")
    if not callable(user_object) or is_pipeline:
        return user_object
    if _takes_no_shards(user_object):
        return user_object()
    exact_urls = [url.exact if isinstance(url, Shard) else url for url in urls]
    for url in exact_urls:
        # The reports of this process hide its secrets.
        redact(url)
    return user_object(exact_urls)


def _takes_no_shards(user_object: object) -> bool:
    """Return whether a function has no positional parameter.

    Returns False if that is not known, as for some functions in C.
    """
    try:
        parameters = inspect.signature(user_object).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    named_only = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return all(parameter.kind in named_only for parameter in parameters)


def check_built(user_object: object, built: object) -> None:
    """Raise PipelineError if a function returned nothing, or several pipelines.

    A list of stages is one pipeline.
    """
    name = escape(getattr(user_object, "__name__", type(user_object).__name__), _MOST_NAME_LETTERS)
    kind = type(built).__name__
    if built is None:
        raise PipelineError(f"{name} returned None: is a return missing?")
    if isinstance(built, dict):
        keys = ", ".join(map(repr, built))
        raise PipelineError(f"{name} returned a {kind} of {keys}; return one of them")
    if not isinstance(built, list | tuple):
        return
    pipelines = [item for item in built if _gives_samples(item)]
    if len(pipelines) > 1:
        raise PipelineError(
            f"{name} returned a {kind} of {len(pipelines)} pipelines; return the one to judge"
        )
    if not pipelines:
        return
    for item in built[1:]:
        is_stage = callable(item) or hasattr(item, "run")
        if not is_stage and not _gives_samples(item):
            raise PipelineError(
                f"{name} returned a {kind} with a value of type {type(item).__name__}; return the pipeline alone"
            )


def _gives_samples(thing: object) -> bool:
    is_stage_or_value = callable(thing) or isinstance(thing, str | bytes | dict)
    if hasattr(thing, "__iter__") and not is_stage_or_value:
        return True
    return is_nested(thing) or is_ray(thing) or is_map_style(thing)


def failure_text(error: BaseException, action: str) -> str:
    """Return a text on an error in the user's code.

    If the code parses a command line, the text is about missing arguments.

    Args:
        error: that was raised.
        action: what was done with the code: "imported" or "called".
    """
    message = _argparse_message(error)
    if not message:
        return error_text(error)
    arguments = message.removeprefix("the following arguments are required: ")
    if arguments != message:
        verb = "are" if "," in arguments else "is"
        message = f"{arguments} {verb} required"
    text = escape(message, _MOST_MESSAGE_LETTERS)
    return (
        f"it parses a command line when {action} ({text}): do that under if __name__ == '__main__'"
    )


def _argparse_message(error: BaseException) -> str:
    """Return the message with which argparse ended the program; "" if it did not."""
    trace = error.__traceback__ if isinstance(error, SystemExit) else None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__") == "argparse" and frame.f_code.co_name == "error":
            message = str(frame.f_locals.get("message", ""))
            if message:
                return message
        trace = trace.tb_next
    return ""


def _import_module(name: str) -> ModuleType:
    """Import a module by its name, or the file of a path."""
    is_file = name.endswith(".py") or os.sep in name
    try:
        if is_file:
            return _import_file(Path(name))
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(name)
    except PipelineError:
        raise
    except ModuleNotFoundError as error:
        is_itself_missing = error.name in (name, name.partition(".")[0])
        if is_itself_missing:
            raise PipelineError(
                f"there is no module {name} here; for a file write its path: --pipeline path/to/train.py:make"
            ) from None
        raise _import_error(name, error) from None
    except SyntaxError as error:
        text = f"{error.filename}:{error.lineno}: {error.msg}"
        raise PipelineError(f"{name} cannot be imported: {text}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        raise _import_error(name, error) from None


def _import_error(name: str, error: BaseException) -> PipelineError:
    text = failure_text(error, "imported")
    line = line_of(error)
    if line:
        text = f"{line}: {text}"
    fault = machine_fault(error)
    if fault:
        text += f"; {fault}: validate where it will train"
    return PipelineError(f"{name} cannot be imported: {text}")


def _import_file(path: Path) -> ModuleType:
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
