"""What runs on the nodes of a Ray cluster."""

import os
import tempfile
from typing import Any

from wdsflow.engines.base import Task, Trouble, Work, trouble_of
from wdsflow.engines.site import Mark, Site

from .worker_process import Process


class RayWorker:
    """An actor: looks after a process that loads what it needs once, and works on one task after another.

    A sample that kills its process costs what it does on one machine; Ray notices only the loss of a whole node.
    """

    def __init__(self, function: Work, site: Site) -> None:
        self._function, self._site = function, site
        self._process: Process | None = None

    def ready(self) -> str:
        """Say what is wrong with this machine; "" if it can work."""
        trouble = self._site.trouble()
        if not trouble:
            self._process = Process(self._function, self._site.hold_open(), self._site.start_folder())
        return trouble

    def work(self, task: Task) -> Any:
        """Return the answer to a task, or Trouble."""
        assert self._process is not None
        return self._process.work(task)


def work_once(function: Work, site: Site, task: Task) -> Any:
    """Return the answer to a task, or Trouble. Runs in a process of Ray that works on one task at a time."""
    if trouble := site.trouble():
        return Trouble(trouble, fatal=True)
    if folder := site.start_folder():
        os.chdir(folder)
    with tempfile.TemporaryFile() as file:
        try:
            return function(task, Mark(file.fileno()))
        except Exception as error:  # noqa: BLE001 - told to the process that asked
            return trouble_of(error)
