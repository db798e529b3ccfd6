"""How many samples would reach a batch after a change: the reader judges the changed samples again."""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.readers.datasets import EXAMPLES
from wdsflow.readers.equal_keys import meetings
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.content.typed_columns import holds_value
from wdsflow.scan.evidence import OK, Evidence, Part, ShardEvidence
from wdsflow.scan.scan_options import ScanOptions
from wdsflow.shards.field_names import IMAGE_FIELDS

from ..finding import Advice
from ..rules.kit.base import Context
from ..verdicts.verdict import Verdict, judge
from .changes import (
    CAPTION,
    Edit,
    ShapeEdits,
    changed,
    is_known,
    is_plain,
    is_uniform,
    keeps_first,
    shapes_of,
    without_one,
)
from .other_names import other_names
from .repaired import Scan, repaired

_REFUSED = frozenset({"bad-field", "unsafe-field"})


class Trial:
    """The shards, as they are and as a repair without options would write them; both can be changed."""

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
            self.repaired, _ = repaired(self.shards, options, scan, afresh=True)
            self.judged = frozenset(old for old, _ in unlike)
        self._usable_after: dict[tuple[str, ShapeEdits], int | None] = {}
        self._looked_at: dict[ShapeEdits, bool] = {}
        self._uncertain: set[tuple[str, ShapeEdits]] = set()  # the number of usable samples is a guess

    def has(self, name: str) -> bool:
        """Return whether some sample has this field after a repair."""
        return any(name in shard.fields for shard in self.repaired)

    def reader(self, verdict: Verdict) -> Reader:
        """Return the reader of a verdict."""
        return next(each for each in self.context.readers if each.name == verdict.reader)

    def after_repair(self, verdict: Verdict, edits: ShapeEdits) -> int | None:
        """Return how many samples reach a batch after a repair; None if the reader would or might raise an error."""
        place = (verdict.reader, edits)
        if place not in self._usable_after:
            shards = changed(self.repaired, edits, edits.caption)
            self._usable_after[place] = self._usable(shards, self.reader(verdict))
            self._looked_at[edits] = is_known(shards)
            if self.reader(verdict).makes_columns and not self._same_columns(edits, shards):
                self._uncertain.add(place)
        return self._usable_after[place]

    def _same_columns(self, edits: ShapeEdits, shards: Sequence[ShardEvidence]) -> bool:
        """Return whether columns keep their types: same first samples, or types that do not depend on samples."""
        if not any(holds_value(part.suffix) for shape in shapes_of(shards) for part in shape):
            return True
        before, after = self.shards[0], self.repaired[0]
        return after.runs is before.runs and keeps_first(after, edits, edits.caption, EXAMPLES)

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
        if (reader.raises and not is_known(shards)) or not reader.foresees(shards):
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
        exact = verdict.exact and self._looked_at[edits]
        safe = not edits.drop and not edits.drop_bad
        advice = replace(self.promise(verdict, does, usable), exact=exact, options=edits.options(), safe=safe)
        certain = self.known and (verdict.reader, edits) not in self._uncertain
        return advice if certain else replace(advice, usable=None)
