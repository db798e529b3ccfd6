"""How many samples would reach a batch after a change or a repair: the reader judges the changed samples again."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import TYPE_CHECKING

from wdsflow.readers.base import Reader, split_keys
from wdsflow.readers.datasets import EXAMPLES
from wdsflow.readers.energon import meetings
from wdsflow.repair.borders import Borders, borders
from wdsflow.repair.preview import Preview
from wdsflow.scan.content.fitting import holds_value
from wdsflow.scan.content.other import kind_of
from wdsflow.scan.evidence import OK, Evidence, Part, ScanOptions, ShardEvidence
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.scanner import Scanner
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.members import Stop
from wdsflow.shards.tar.walk import MemberBatch, Row, Seen

from ..finding import Advice, Finding, Repair, promises
from ..rules.kit.base import Context, leave_out, repair
from ..rules.kit.shape_edits import (
    CAPTION,
    Edit,
    ShapeEdits,
    caption_edits,
    changed,
    is_known,
    is_plain,
    is_uniform,
    keeps_first,
    other_names,
    shapes_of,
    together,
    without_one,
)
from ..verdicts.verdict import Verdict, judge

if TYPE_CHECKING:
    from wdsflow.repair.sample_fixer import Field

NOT_TRIED = "not-tried"  # error of a shard whose repair cannot be predicted
_BATCH = 1_000  # members
_NOWHERE = 1 << 62  # no window: contents are read individually


def scan_repaired(url: Shard, options: ScanOptions, *, moved: Borders) -> ShardEvidence:
    """Scan a shard as ``wdsflow repair`` without options would write it; nothing is written.

    The error of the evidence is NOT_TRIED if that cannot be known: for shards that can only be read from front to back.
    """
    shard = ShardEvidence(url)
    try:
        with Preview(url, moved, allow_pipe=options.allow_pipe) as preview:
            walk = _Previewed(preview)
            scan = Scanner(shard, options, RunCollector())
            for batch in walk:
                scan.batch(batch, walk)
            scan.finish(walk)
    except (OSError, ValueError) as error:
        shard.fail(NOT_TRIED, str(error))
    return shard


class _Previewed:
    """The members of a preview, like those of a walk over the repaired tar."""

    def __init__(self, preview: Preview) -> None:
        self.preview = preview
        self.stop = Stop("end", 0, "")
        self.seen: dict[str, Seen] = {}
        self.fields: list[Field] = []

    def read(self, member: Row, start: int, size: int) -> bytes:
        """Return a part of the contents of a member of the latest batch."""
        return self.preview.read(self.fields[member[2]], start, size)

    def __iter__(self) -> Iterator[MemberBatch]:
        rows: list[Row] = []
        for position, (name, field, size) in enumerate(self.preview.members()):
            rows.append((name, size, len(self.fields), position, "file"))
            self.fields.append(field)
            if len(rows) == _BATCH:
                yield MemberBatch(rows, b"", _NOWHERE, beyond=False)
                rows, self.fields = [], []
        if rows:
            yield MemberBatch(rows, b"", _NOWHERE, beyond=False)


Scan = Callable[..., list[ShardEvidence]]  # scan_shards, with its engine

# Tallies that a repair does not change. All others may change which members form a sample.
_KEPT = ("image.", "text.", "json.", "field.", "column.")
_KEPT_TOO = frozenset({"tar.no-end-blocks", "tar.pax-overhead", "tar.huge-member", "tar.directory"})
_PAPERS = frozenset({"md", "txt", "rst", "html", "db", "ini"})  # README.md and the like are not samples
_MOST_SHAPES = 50


def repaired(
    shards: Sequence[ShardEvidence], options: ScanOptions, scan: Scan, *, scan_all: bool = False
) -> tuple[list[ShardEvidence], bool]:
    """Return the evidence of the shards that ``wdsflow repair`` without options would write, and whether all is known.

    Most shards would not change. Shards with separated members, odd names or damage are scanned again, with the order and
    names in which a repair would write their members. Those that can only be read from front to back stay unchanged; then
    not all is known. Shards without a sample are left out. ``scan_all``: the options differ from those of the first scan, so
    all shards are scanned again.
    """
    readable = [shard for shard in shards if shard.error in (None, "not-a-tar") and not shard.is_distrusted]
    urls = [shard.url for shard in readable]
    moved = borders(urls) if meetings(readable) else {}
    wild = [place for place, shard in enumerate(readable) if place in moved or not _stays(shard)]
    changes = [place for place in wild if readable[place].compression is None and not urls[place].is_pipe]
    ways = [partial(scan_repaired, moved=moved.get(place, Borders())) for place in changes]
    found = scan([urls[place] for place in changes], options, how=ways) if changes else []
    known = len(changes) == len(wild) and all(shard.error != NOT_TRIED for shard in found)
    stay = [place for place in range(len(readable)) if place not in changes] if scan_all else []
    again = scan([urls[place] for place in stay], options) if stay else []
    written = dict(enumerate(readable))
    written |= {place: shard for place, shard in zip(changes, found, strict=True) if shard.error != NOT_TRIED}
    written |= dict(zip(stay, again, strict=True))
    whole = [
        replace(written[place], url=name, error=None, compression=None, stop=Stop(), by_arrow=None)
        for place, name in enumerate(Shard.file(os.path.basename(url)) for url in urls)  # all in one folder
    ]
    return [shard for shard in whole if shard.runs.head is not None], known


def _stays(shard: ShardEvidence) -> bool:
    """Return whether a repair would write the same samples, with the same fields in the same order."""
    if shard.error or shard.stop.kind not in ("end", "eof") or shard.visible_runs or shard.all_runs:
        return False
    if any(not (name.startswith(_KEPT) or name in _KEPT_TOO) for name, tally in shard.tallies.items() if tally.count):
        return False
    if any("." in name for name in shard.fields):
        return False
    shapes = list(islice(shard.runs.counted(), _MOST_SHAPES + 1))
    # A repair joins folders only if no two kinds of samples share a field.
    fields = {frozenset(part.suffix.lower() for part in run.shape) for run in shapes}
    if len(shapes) > _MOST_SHAPES or any(one <= _PAPERS for one in fields):
        return False
    return all(one & other for one, other in combinations(fields, 2))


_REFUSED = frozenset({"bad-field", "unsafe-field"})


class Trial:
    """Judges changes of the shards, and of the shards that a repair without options would write."""

    def __init__(self, context: Context, options: ScanOptions, scan: Scan) -> None:
        self.context = context
        self.shards = context.evidence.shards
        self.repaired, self.known = repaired(self.shards, options, scan)
        self.renames = list(other_names(self.repaired).items())
        self.judged: frozenset[str] = frozenset()  # fields to rename, with their new names
        unlike = [(old, new) for old, new in self.renames if kind_of(old) != kind_of(new) and not old.endswith(".gz")]
        if unlike and options.level != "names":
            texts = tuple(old for old, new in unlike if new == CAPTION)
            images = tuple(old for old, new in unlike if new != CAPTION)
            options = replace(options, text_key=options.text_key + texts, image_key=options.image_key + images)
            self.repaired, _ = repaired(self.shards, options, scan, scan_all=True)
            self.judged = frozenset(old for old, _ in unlike)
        # Usable samples after a repair, whether all contents are known, and whether columns keep their types.
        self._after: dict[tuple[str, ShapeEdits], tuple[int | None, bool, bool]] = {}

    def has(self, name: str) -> bool:
        """Return whether some sample has this field after a repair."""
        return any(name in shard.fields for shard in self.repaired)

    def reader(self, verdict: Verdict) -> Reader:
        """Return the reader of a verdict."""
        return next(each for each in self.context.readers if each.name == verdict.reader)

    def after_repair(self, verdict: Verdict, edits: ShapeEdits) -> int | None:
        """Return how many samples reach a batch after a repair; None if the reader would or might raise an error."""
        place = (verdict.reader, edits)
        if place not in self._after:
            shards, reader = changed(self.repaired, edits, edits.caption), self.reader(verdict)
            same = True
            # Columns keep their types with the same first samples, or if the types do not depend on samples.
            if reader.makes_columns and any(holds_value(part.suffix) for shape in shapes_of(shards) for part in shape):
                before, after = self.shards[0], self.repaired[0]
                same = after.runs is before.runs and keeps_first(after, edits, edits.caption, EXAMPLES)
            self._after[place] = self._usable(shards, reader), is_known(shards), same
        return self._after[place][0]

    def safely(self, verdict: Verdict, edits: ShapeEdits) -> tuple[ShapeEdits, int | None]:
        """Like ``after_repair``, but also leave out samples at which the reader would or might raise an error."""
        usable = self.after_repair(verdict, edits)
        if usable is not None:
            return edits, usable
        without = replace(edits, drop_bad=True)
        return without, self.after_repair(verdict, without)

    def as_they_are(self, reader: Reader, edit: Edit, caption: str) -> int | None:
        """Return how many samples reach a batch if samples are changed on their way to a reader.

        None if the reader would or might raise an error, or if samples continue from one shard to the next.
        """
        if not is_plain(self.shards) or meetings(self.shards):
            return None
        unreadable = [shard for shard in self.shards if shard.error is not None]
        return self._usable([*unreadable, *changed(self.shards, edit, caption)], reader)

    def _usable(self, shards: Sequence[ShardEvidence], reader: Reader) -> int | None:
        if reader.same_fields and not is_uniform(shards):
            return None  # after a change, the first samples are not known
        if reader.raises and not is_known(shards):
            return None
        verdict = judge(Evidence(self.context.evidence.level, list(shards)), reader)
        return None if verdict.outcome == "crashes" else verdict.usable

    def refused(self, reader: Reader) -> list[str]:
        """Return the fields other than image and caption that a reader cannot decode in some sample, after a repair.

        Samples without image or caption are treated as if they had them.
        """
        names: dict[str, None] = {}
        for shape in shapes_of(self.repaired):
            whole = {Part(CAPTION, OK), Part(IMAGE_FIELDS[0], OK), *shape}
            for parts in (shape, tuple(sorted(whole))):
                left = parts
                while bad := next((fate.detail for fate in reader.fates(left) if fate.reason in _REFUSED), ""):
                    names[bad.lower()] = None
                    left = tuple(part for part in left if part.suffix != bad)
        return sorted(names)

    def needed(self, verdict: Verdict, together: ShapeEdits) -> ShapeEdits:
        """Return those of several steps without which fewer samples would reach a batch."""
        most = self.after_repair(verdict, together)
        for less in without_one(together):
            if self.after_repair(verdict, less) == most:
                return self.needed(verdict, less)
        return together

    def promise(self, verdict: Verdict, does: str, usable: int) -> Advice:
        """Return advice with the number of samples that it promises for a reader."""
        title = verdict.title.split(" (")[0]
        exact = verdict.exact and is_known(self.shards)
        gained = usable - verdict.usable
        return Advice(gained, does, verdict.reader, title, usable, verdict.usable, verdict.samples, exact)

    def repair(self, verdict: Verdict, does: str, usable: int, edits: ShapeEdits) -> Advice:
        """Return the same for a repair; without a number if the resulting shards or columns are not known."""
        _, known, same = self._after[verdict.reader, edits]
        safe = not edits.drop and not edits.drop_bad
        promise = self.promise(verdict, does, usable)
        certain = usable if self.known and same else None
        return replace(promise, exact=verdict.exact and known, options=edits.options(), safe=safe, usable=certain)


def keep_most(findings: Sequence[Finding], context: Context, trial: Callable[[], Trial] | None = None) -> list[Finding]:
    """Return findings whose repairs with ``--drop-bad`` first put image and caption into the fields that it checks.

    Such a repair reads all shards. It is omitted if no sample would remain; ``trial`` counts them, None without contents.
    """
    drops = [finding.repair is not None and "--drop-bad" in finding.repair.options for finding in findings]
    if not any(drops):
        return list(findings)
    repair = _as_read(context) if trial is None else _tried(context, trial())
    return [replace(each, repair=repair) if drop else each for each, drop in zip(findings, drops, strict=True)]


def _as_read(context: Context) -> Repair | None:
    """Return the repair that keeps captions in the fields of the readers."""
    places = [_place(context, reader) for reader in context.readers]
    if not all(verdict.usable for verdict in context.verdicts) or None in places:
        return None
    edits = next((each for each in places if each is not None and each.caption), ShapeEdits())
    return leave_out(context.targets(), *edits.options())


def _place(context: Context, reader: Reader) -> ShapeEdits | None:
    """Return the edits that write txt members from a reader's captions; None if a repair does not know its fields."""
    fields = {name for shard in context.evidence.shards for name in shard.fields}
    options = reader.options
    if reader.pairs_with != "caption" or not set(split_keys(options.image_key)) & set(IMAGE_FIELDS):
        return None
    if options.json_text_key:
        return ShapeEdits(options.json_text_key, () if "json" in fields or "jsn" not in fields else (("jsn", "json"),))
    return ShapeEdits() if CAPTION in split_keys(options.text_key) else None


def _tried(context: Context, trial: Trial) -> Repair | None:
    """Return the repair after which the most samples reach a batch, with their number."""
    read = [each for reader in context.readers if (each := _place(context, reader)) is not None]
    captions = caption_edits(trial.repaired)
    renames = [ShapeEdits(rename=((old, new),), judged=trial.judged) for old, new in trial.renames]
    ideas = [*([captions] if captions is not None else []), *renames]
    edits = [replace(each, drop_bad=True) for each in (ShapeEdits(), *read, *ideas, together(ideas))]

    def left(edits: ShapeEdits) -> int:
        return sum(trial.after_repair(verdict, edits) or 0 for verdict in context.verdicts)

    best = max(edits, key=left, default=ShapeEdits())
    while less := next((each for each in without_one(best) if left(each) == left(best)), None):
        best = less
    usable = [(verdict, trial.after_repair(verdict, best)) for verdict in context.verdicts]
    labels = [(verdict, number) for verdict, number in usable if verdict.pairs_with == "label"]
    if not left(best) or any((number or 0) < verdict.usable for verdict, number in labels):
        return None  # samples without a caption are left out, which readers of labels can use
    found = [trial.repair(verdict, "", number, best) for verdict, number in usable if number]
    safe = replace(best, drop_bad=False)
    if all(number == verdict.samples == trial.after_repair(verdict, safe) for verdict, number in usable):
        return repair(context.targets(), *safe.options(), note=promises(found))  # there is nothing to leave out
    return leave_out(context.targets(), *safe.options(), number=promises(found))
