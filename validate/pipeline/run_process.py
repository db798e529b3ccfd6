"""The process in which the user's pipeline runs as it is, with meters between its stages.

It repeats, splits, batches and ends by itself; only the objects between the stages are ours.
"""

import inspect
import os
import re
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from wdsflow.engines.peer import receive, send, take_line, when_gone

from ..tracing.errors import line_of, machine_fault, own_line
from ..tracing.meter import Stopped
from ..tracing.pipeline_steps import take_apart
from .iterables import Items, is_map_style, is_ray
from .load_pipeline import PipelineError, build, check_built, failure_text, find
from .measured_loaders import MeasuredLoaders
from .pass_limit import PassLimit
from .reported_run import ReportedRun, begin_reports
from .run_lists import note_opened
from .run_reports import MAIN, ProcessPosition, RunRequest
from .user_process import bound_memory, forget_ranks, start_ray

_CALL = re.compile(r"\b(\w+)\(")


def serve(spec: str) -> None:
    """In the process: import the pipeline, build it, and run it; answer "" after each step, or why it failed."""
    line = take_line()
    when_gone(line, lambda: os.killpg(0, signal.SIGKILL))
    request: RunRequest = receive(line)
    position = begin_reports(Path(request.folder), MAIN)
    position.step(-1, "", "")
    bound_memory()
    forget_ranks()
    note_opened(Path(request.folder), request.urls)
    try:
        made_by = find(spec)
        start_ray()
        send(line, "")
        built = _built(spec, made_by, request)
        send(line, "")
        request = replace(request, calls=_calls_in(made_by))
        if request.held is not None:
            request = replace(request, pass_limit=PassLimit.of(built, request.held))
        _run(built, request, position, time.monotonic() + request.seconds)
    except (PipelineError, TypeError) as error:
        send(line, str(error))
        return
    send(line, "")
    # Threads of the user end with the process.
    os._exit(0)


def _built(spec: str, made_by: object, request: RunRequest) -> object:
    try:
        built = build(made_by, request.urls)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        where = line_of(error)
        cause = "; ".join(filter(None, [failure_text(error, "called"), _elsewhere(machine_fault(error))]))
        raise PipelineError(f"{spec} cannot be built: {f'{where}: ' if where else ''}{cause}") from None
    check_built(made_by, built)
    # They sleep half a second after each warning.
    if handlers := sys.modules.get("webdataset.handlers"):
        vars(handlers)["time"] = _NoSleep
    return built


def _calls_in(made_by: object) -> dict[str, str]:
    """Return the functions that the code of a function or class calls in one line only, with that line."""
    found: dict[str, list[str]] = {}
    try:
        file = inspect.getsourcefile(made_by) or ""  # type: ignore[arg-type]
        lines, first = inspect.getsourcelines(made_by)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return {}
    for number, text in enumerate(lines, first):
        for name in _CALL.findall(text):
            found.setdefault(name, []).append(own_line(file, number))
    return {name: places[0] for name, places in found.items() if len(places) == 1 and places[0]}


class _NoSleep:
    sleep = staticmethod(lambda _: None)


def _elsewhere(fault: str) -> str:
    return f"{fault}: validate where it will train" if fault else ""


def _run(pipeline: object, request: RunRequest, position: ProcessPosition, until: float) -> None:
    """Run a pipeline until it ends, or until it has read enough. Raises TypeError if it is none.

    ``until``: time.monotonic() at which the input ends.
    """
    if is_ray(pipeline):
        pipeline = pipeline.iter_rows()
    elif is_map_style(pipeline):
        pipeline = Items(pipeline)
    loaders = MeasuredLoaders(request, until)
    run = ReportedRun(take_apart(pipeline, loaders.run), MAIN, request, position, until)
    if isinstance(pipeline, Items):
        pipeline.before_item = run.begins_item
    try:
        with run.listens():
            for item in run.assemble():
                run.delivers(item)
    except Stopped:
        pass
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        run.fail(error)
    run.report()
