"""Files that a row names: inside of one folder, and nowhere else."""

import os
import stat
from dataclasses import dataclass

from wdsflow.stages.scores.score_errors import ScoreError


@dataclass(frozen=True)
class MediaRoot:
    """The folder that paths begin at. ``absolute``: it was given, so that whole paths into it are fine, too."""

    folder: str
    absolute: bool = False

    def path(self, name: str) -> str:
        """Return where a file lies, links followed. Raises ScoreError "outside", "missing-file"."""
        if "\0" in name or not name:
            raise ScoreError("missing-file", f"{name!r} is no path")
        if os.path.isabs(name) and not self.absolute:
            raise ScoreError("outside", f"{name!r} is a whole path: --media-root names the folder that may be read")
        root = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(root, name))
        if os.path.commonpath((root, path)) != root:
            raise ScoreError("outside", f"{name!r} lies outside of {self.folder}: --media-root names another folder")
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise ScoreError("missing-file", f"{name!r}: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise ScoreError("missing-file", f"{name!r} is no regular file")
        return path
