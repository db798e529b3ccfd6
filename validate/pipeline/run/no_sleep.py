"""The handlers of webdataset do not sleep in the processes that run a pipeline to judge it."""

import sys


class _NoSleep:
    """In place of the module ``time``."""

    @staticmethod
    def sleep(seconds: float) -> None:
        """Return at once."""


def disable_handler_sleep() -> None:
    """Let the handlers of webdataset, if it is imported, return at once after each warning.

    They sleep half a second otherwise.
    """
    handlers = sys.modules.get("webdataset.handlers")
    if handlers:
        vars(handlers)["time"] = _NoSleep
