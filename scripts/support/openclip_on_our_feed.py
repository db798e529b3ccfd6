"""A pytest plugin that runs OpenCLIP's own tests on wdsflow's feed.

The feed replaces OpenCLIP's loader.
"""

import functools
from typing import Any

import pytest
from open_clip_train import data

from wdsflow.training import openclip

_calls: list[str] = []


@functools.wraps(openclip.get_wds_dataset)
def _counting_feed(*args: Any, **named: Any) -> Any:
    _calls.append("get_wds_dataset")
    return openclip.get_wds_dataset(*args, **named)


# Before the tests import it from there by name.
data.get_wds_dataset = _counting_feed


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where no test has used the feed: OpenCLIP may have moved the function."""
    if not _calls and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how often the feed was used."""
    terminalreporter.write_line(f"wdsflow's feed was made {len(_calls)} times")
