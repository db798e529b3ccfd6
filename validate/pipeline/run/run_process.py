"""The process in which the user's pipeline runs as it is, with meters between its stages.

It repeats, splits, batches and ends by itself; only the objects between the stages are ours.
"""

import inspect
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

from wdsflow.engines.messages import receive, send, take_line, when_closed

from ...tracing.errors import line_of, own_line
from ...tracing.machine_faults import machine_fault
from ...tracing.pipeline_steps import take_apart
from ...tracing.trace_run import Stopped
from ..reports.process_position import MAIN, ProcessPosition
from ..reports.run_lists import list_opened
from ..user_code.iterables import Items, is_map_style, is_ray
from ..user_code.load_pipeline import PipelineError, build, check_built, failure_text, load_object
from ..user_code.user_process import forget_ranks, limit_memory, start_ray
from .measured_loaders import MeasuredLoaders
from .no_sleep import disable_handler_sleep
from .pass_limit import PassLimit
from .reported_run import ReportedRun, begin_reports
from .run_request import RunRequest

_CALL = re.compile(r"\b(\w+)\(")


def serve(spec: str) -> None:
    """Import the pipeline, build it, and run it, in this process.

    Each step is answered with "", or with the reason why it failed.
    """
    line = take_line()
    # Nothing that the pipeline started survives the process that asked.
    when_closed(line, lambda: os.killpg(0, signal.SIGKILL))
    request: RunRequest = receive(line)
    folder = Path(request.folder)
    position = begin_reports(folder, MAIN)
    position.step(-1, "", "")
    limit_memory()
    forget_ranks()
    list_opened(folder, request.urls)
    try:
        user_object = load_object(spec)
        start_ray()
        send(line, "")
        pipeline = _build_pipeline(spec, user_object, request)
        send(line, "")
        request = replace(request, call_lines=_call_lines(user_object))
        if request.shard_samples is not None:
            request = replace(request, pass_limit=PassLimit.of(pipeline, request.shard_samples))
        _run(pipeline, request, position)
    except (PipelineError, TypeError) as error:
        send(line, str(error))
        return
    send(line, "")
    # Threads of the user end with the process.
    os._exit(0)


def _build_pipeline(spec: str, user_object: object, request: RunRequest) -> object:
    """Return the pipeline of the user's function. Raises PipelineError if it cannot be built."""
    try:
        pipeline = build(user_object, request.urls)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        text = failure_text(error, "called")
        line = line_of(error)
        if line:
            text = f"{line}: {text}"
        fault = machine_fault(error)
        if fault:
            text += f"; {fault}: validate where it will train"
        raise PipelineError(f"{spec} cannot be built: {text}") from None
    check_built(user_object, pipeline)
    disable_handler_sleep()
    return pipeline


def _call_lines(user_object: object) -> dict[str, str]:
    """Return the names that a function or class calls in one line only, with that line."""
    try:
        file = inspect.getsourcefile(user_object) or ""  # type: ignore[arg-type]
        lines, first = inspect.getsourcelines(user_object)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return {}
    lines_of: dict[str, list[str]] = {}
    for number, text in enumerate(lines, first):
        for name in _CALL.findall(text):
            lines_of.setdefault(name, []).append(own_line(file, number))
    call_lines = {}
    for name, calls in lines_of.items():
        if len(calls) == 1 and calls[0]:
            call_lines[name] = calls[0]
    return call_lines


def _run(pipeline: object, request: RunRequest, position: ProcessPosition) -> None:
    """Run a pipeline until it ends, or until it has read enough. Raises TypeError if it is none."""
    # The input ends then.
    deadline = time.monotonic() + request.seconds
    if is_ray(pipeline):
        pipeline = pipeline.iter_rows()
    elif is_map_style(pipeline):
        pipeline = Items(pipeline)
    loaders = MeasuredLoaders(request, deadline)
    run = ReportedRun(take_apart(pipeline, loaders.run), MAIN, request, position, deadline)
    if isinstance(pipeline, Items):
        pipeline.before_item = run.note_item_start
    try:
        with run.counting_warnings():
            for item in run.assemble():
                run.list_delivered(item)
    except Stopped:
        pass
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        run.fail(error)
    run.report()
