"""Files that a row names: only inside of one folder."""

import os
import stat
from dataclasses import dataclass

from wdsflow.stages.scores.score_errors import ScoreError


@dataclass(frozen=True)
class MediaRoot:
    """The folder to which paths are relative. ``absolute``: the user gave it, so absolute paths into it are valid too."""

    folder: str
    absolute: bool = False

    def path(self, name: str) -> str:
        """Return the path of a file, links resolved. Raises ScoreError "outside", "missing-file"."""
        if "\0" in name or not name:
            raise ScoreError("missing-file", f"{name!r} is not a path")
        if os.path.isabs(name) and not self.absolute:
            raise ScoreError(
                "outside", f"{name!r} is an absolute path: name the folder that may be read with --media-root"
            )
        root = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(root, name))
        if os.path.commonpath((root, path)) != root:
            raise ScoreError("outside", f"{name!r} is outside of {self.folder}: name another folder with --media-root")
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise ScoreError("missing-file", f"{name!r}: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise ScoreError("missing-file", f"{name!r} is not a regular file")
        return path
