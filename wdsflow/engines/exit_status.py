"""How a process ended, in words."""

import signal


def signal_name(status: int | None) -> str:
    """Return the name of the signal that ended a process, "" if none did.

    >>> signal_name(-9), signal_name(-40), signal_name(1)
    ('SIGKILL', 'signal 40', '')
    """
    if status is None or status >= 0:
        return ""
    try:
        return signal.Signals(-status).name
    except ValueError:
        # One that programs may use for anything.
        return f"signal {-status}"


def describe_exit(status: int, by_itself: str = "ended with status") -> str:
    """Return how a process ended.

    >>> describe_exit(-11), describe_exit(3)
    ('was killed by SIGSEGV', 'ended with status 3')
    """
    name = signal_name(status)
    return f"was killed by {name}" if name else f"{by_itself} {status}"


def sigkill_cause(status: int, what: str) -> str:
    """Return the likely cause of SIGKILL, "" for another end; ``what``: "a process"."""
    if status != -signal.SIGKILL:
        return ""
    return f": often the system's way to end {what} that takes too much memory"
