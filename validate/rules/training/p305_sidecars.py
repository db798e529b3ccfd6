import os
from collections.abc import Iterator, Sequence

from wdsflow.indexing.sidecar_kinds import KINDS
from wdsflow.indexing.written_files import IndexLine
from wdsflow.readers.sidecar_facts import SidecarFact
from wdsflow.records.line import is_as_written
from wdsflow.text.shell import quote_path

from ...finding import Finding, Repair, Severity
from ..kit.base import Context, Rule


class WrongSidecar(Rule):
    """A file next to the shards, with their number of samples or an index, is wrong.

    What: ``sizes.json``, ``__len__``, ``NNNNN_stats.json``, or an index of wids, timm (``_info.json``), Energon (``.nv-meta``,
    ``.tar.idx``), DALI (``.idx``) or webshart (``NAME.json``) does not parse, does not list all shards, lists shards that
    are not there, or has other counts, sizes or places than the shards. Or a file of a single shard is there without the
    shard.

    Why it matters: without ``--train-num-samples`` OpenCLIP takes the length of an epoch, and from it the learning-rate
    schedule, from sizes.json or ``__len__`` next to the *first* shard. If a shard is not listed, OpenCLIP ends with a
    KeyError; if the file is broken, with a JSONDecodeError. Stale counts make every epoch too long or too short. wids
    refuses to read a shard whose count is wrong. With an index whose places are wrong, DALI and Energon read bytes from the
    middle of other members. A reader that takes the list of shards from its index fails at a shard that is not there;
    img2dataset takes a shard with stats for done, and does not download it again.

    In practice: shards filtered or copied without their sizes.json; a damaged shard deleted by hand; ``--train-num-samples`` pasted from another set
    (open_clip#1016, #899); open_flamingo#206; two folders with equal base names, of which OpenCLIP counts the first
    twice.

    Fix: if a shard is missing by mistake, copy it back. Otherwise write the files again: ``wdsflow index URL... --sizes
    --len --force``, with an option for each kind of file. Or delete them and give ``--train-num-samples``.
    """

    code = "P305"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        if context.sidecars is None:
            return
        ended = any(forecast.crash_kind == "samples" for forecast in context.forecasts)
        fixes = _fixes(context.sidecars.facts)
        for fact in context.sidecars.facts:
            yield Finding(
                self.code,
                self.severity_of(fact, ended),
                f"{fact.path} {_WORDS[fact.problem]}{fact.detail}",
                count=fact.shards,
                readers=tuple(name for name in context.names() if name.startswith("open-clip")),
                repair=fixes.get(fact),
            )

    def severity_of(self, fact: SidecarFact, ended: bool) -> Severity:
        """Return "error" if OpenCLIP ends because of this file."""
        read = fact.path.endswith(("sizes.json", "__len__"))
        return "error" if ended and read and fact.problem in ("missing", "malformed") else self.severity


_WORDS = {
    "missing": "",
    "malformed": "cannot be read: ",
    "stale": "does not agree with the shards: ",
    "gone": "lists ",
    "orphaned": "has files of shards that are not there: ",
}
_REMOVED = 20  # files that a command removes by name


def _fixes(facts: Sequence[SidecarFact]) -> dict[SidecarFact, Repair]:
    """Return the commands that write files again, for all kinds of a folder at once, or remove those without a shard."""
    groups: dict[tuple[str, str], list[SidecarFact]] = {}
    for fact in facts:
        if fact.kinds:
            # If we wrote them, the command also removes those that have no shard.
            ours = is_as_written(fact.folder, "index", IndexLine, fact.files)
            how = "" if ours else "remove" if fact.problem == "orphaned" else "--force"
            groups.setdefault((fact.folder, how), []).append(fact)
    return {fact: _fix(folder, how, group) for (folder, how), group in groups.items() for fact in group}


def _fix(folder: str, how: str, facts: Sequence[SidecarFact]) -> Repair:
    if how == "remove":
        files = facts[0].files
        note = f"the first {_REMOVED} of {len(files):,}" if len(files) > _REMOVED else ""
        return Repair(
            " ".join(["rm", *(quote_path(os.path.join(folder, name)) for name in files[:_REMOVED])]), note=note
        )
    kinds = [kind for kind in KINDS if any(kind in fact.kinds for fact in facts)]
    words = ["wdsflow index", quote_path(folder), *(f"--{kind}" for kind in kinds), *([how] if how else [])]
    is_edited = bool(how) and "energon" in kinds
    return Repair(" ".join(words), not is_edited, "also writes dataset.yaml and split.yaml again" if is_edited else "")
