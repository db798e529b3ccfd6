"""Decides when the input of a run ends.

It ends after enough samples, or passes over the shards, of all processes of one kind together.
"""

from pathlib import Path

from ..reports.process_position import Role
from ..reports.process_report import Limit
from ..reports.sample_counts import SampleCounts
from .run_request import RunRequest


class InputLimits:
    """The limits of a request, and how much processes have read so far.

    Args:
        request: of the run.
        role: of this process.
    """

    def __init__(self, request: RunRequest, role: Role) -> None:
        self._request = request
        self._role = role
        # Of all processes of the run.
        self._counts = SampleCounts(Path(request.folder))
        # Samples of this process that are in these counts.
        self._samples_added = 0

    def set_read(self, samples: int) -> None:
        """Note how many samples this process has read."""
        self._counts.add(self._role, samples - self._samples_added, 0)
        self._samples_added = samples

    def add_delivered(self) -> None:
        """Note that this process has delivered one more element."""
        self._counts.add(self._role, 0, 1)

    def reached_by(self, role: Role) -> Limit:
        """Return the limit that processes of one kind have reached together; "" if none."""
        read, delivered = self._counts.of(role)
        if read >= self._request.samples:
            return "samples"
        pass_limit = self._request.pass_limit
        most = pass_limit.samples
        if not delivered:
            most = min(most, pass_limit.until_output)
        return "passes" if read >= most else ""
