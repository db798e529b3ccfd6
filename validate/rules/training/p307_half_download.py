import os
import shlex
from collections.abc import Iterator

from wdsflow.readers.open_clip.sidecars import Folder
from wdsflow.records.unfinished import Unfinished
from wdsflow.text.escape import escape
from wdsflow.text.shell import command, quote_path
from wdsflow.text.words import how_many

from ...finding import Finding, Repair
from ..kit.base import Context, Rule


class HalfDownload(Rule):
    """The download or the command that writes these shards did not finish.

    What: img2dataset writes ``NNNNN_stats.json`` when a shard is finished. Some shards of a folder have one, but these
    have none. Or ``wdsflow filter``, ``cut``, ``repair``, ``reshard`` or ``graft`` wrote the folder, and ended before all
    shards were written: the disk was full, or the command was interrupted or killed.

    Why it matters: a shard without a stats file is short, or cut in the middle of a sample, which readers often do not
    notice (W001). On the next run, img2dataset takes a shard for done if its stats file exists, and writes the others
    again. Each shard that wdsflow has written is whole, but others are missing. Training on them would train on a part of
    the data, for epochs that are too short.

    In practice: img2dataset#452, #358; training sets with a few shards of 1 KB; a full disk in the last hour of a job.

    Fix: run img2dataset again with ``--incremental_mode incremental``, or leave these shards out. The same wdsflow command
    resumes its run; shards that are finished are kept.
    """

    code = "P307"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        if context.sidecars is None:
            return
        for name, folder in context.sidecars.folders.items():
            if folder.unfinished is not None:
                yield self._unfinished(context, name, folder.unfinished)
            if folder.without_stats:
                yield self._without_stats(context, name, folder)

    def _without_stats(self, context: Context, name: str, folder: Folder) -> Finding:
        absent = folder.without_stats
        some = ", ".join(escape(base, 60) for base in absent[:3]) + (", ..." if len(absent) > 3 else "")
        return Finding(
            self.code,
            self.severity,
            f"{escape(name or '.')}: {how_many(len(absent), 'shard')} without _stats.json ({some}), "
            f"next to {len(folder.stats):,} with one: their download was not finished",
            count=len(absent),
            readers=context.names(),
        )

    def _unfinished(self, context: Context, name: str, run: Unfinished) -> Finding:
        what = "a wdsflow command" if run.run not in _RUNS else f"wdsflow {run.run}"
        most = f" (at most {run.shards:,})" if run.shards else ""
        words = resuming(run)
        return Finding(
            self.code,
            "error",
            f"{escape(name or '.')}: {what} did not finish, or still runs: not all of its shards{most} are written; the same"
            " command resumes it",
            readers=context.names(),
            repair=Repair(words) if words else None,
        )


_RUNS = ("filter", "cut", "repair", "reshard", "graft")


def resuming(run: Unfinished) -> str:
    """Return the command that resumes a run, from this folder; "" if it is not known.

    It comes from a file next to the shards, which may be anyone's: each word is quoted, and nothing that runs other
    programs is printed.
    """
    try:
        words = shlex.split(run.command)
    except ValueError:
        return ""
    odd = "$'" in run.command or "--allow-pipe" in words or not run.command.isprintable()
    if words[:1] != ["wdsflow"] or words[1:2] != [run.run] or run.run not in _RUNS or odd:
        return ""
    here = os.path.realpath(run.place) == os.path.realpath(".")
    if not here and not (run.place.isprintable() and os.path.isdir(run.place)):
        return ""
    return command(words) if here else f"cd {quote_path(run.place)} && {command(words)}"
