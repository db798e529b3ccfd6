"""Commands as they are typed, run in this process."""

import json

import pytest

from wdsflow.cli.main import main


def run(*words):
    """Run a command, and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def report(capsys):
    """Return the JSON that a command printed."""
    return json.loads(capsys.readouterr().out)
