"""What holds for all tests."""

import signal

from hypothesis import HealthCheck, settings

# The same cases each time, and no clock: what fails here was changed here. `--hypothesis-profile search` draws new ones.
settings.register_profile("gate", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", parent=settings.get_profile("gate"), derandomize=False)
settings.load_profile("gate")

# A shell's background job ignores Ctrl-C, and so would all programs that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
