from collections import defaultdict
from collections.abc import Callable, Iterator

from wdsflow.readers.base import Reader
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding, Repair
from ..kit.base import Context, Rule
from ..kit.missing_fields import Lack, Wants, lacks, wants
from ..kit.shape_rule import crashes
from .f101_missing_everywhere import field_phrase


class MissingInPart(Rule):
    """Some samples lack the image or the caption.

    What: some samples lack a field that a reader needs and that other samples have, and no other field of theirs can
    serve instead.

    Why it matters: OpenCLIP drops them silently and without a count; an epoch then has fewer samples than
    ``--train-num-samples``, and repeats the rest to fill up. webdataset 1.x ends at the first of them. Hugging Face
    datasets and Ray Data give None.

    In practice: downloads where the image failed and only the json was kept, captions removed by a filter, README.md
    and other files that become separate samples (open_clip PR#179; Mobile-O#8).

    Fix: ``wdsflow repair URL... -o repaired --drop-bad`` leaves them out, with all samples whose image, caption or json
    cannot be used; counts are then correct. ``--caption json:FIELD`` keeps captions that are in json. ``wdsflow inspect
    SHARD`` lists the fields of samples.
    """

    code = "F102"
    severity = "warning"
    drops_bad = True
    requires = ("W006", "W012", "W022", "W029", "W030")  # each splits samples

    def check(self, context: Context) -> Iterator[Finding]:
        yield from partial_losses(context, self.code, instead=False, fix=self.fix)

    def fix(self, context: Context, lack: Lack) -> Repair | None:
        """Return the fix for samples that lack something."""
        return self.repair(lack.shard.url)


Fix = Callable[[Context, Lack], Repair | None]
_HALVING = ("key.again", "name.appledouble", "name.macosx", "name.mixed-prefix")  # reported by the rules in `requires`


def partial_losses(context: Context, code: str, *, instead: bool, fix: Fix) -> Iterator[Finding]:
    """Yield findings for samples that lack a field, with or without a field that could serve instead."""
    rows: dict[tuple[object, ...], list[tuple[Wants, Lack]]] = defaultdict(list)
    totals: dict[str, int] = defaultdict(int)
    for want in wants(context):
        for lack in lacks(context, want):
            if bool(lack.instead) == instead:
                labels = want.reader.pairs_with == "label"
                rows[lack.shard.url, lack.roles, lack.instead, lack.count, labels].append((want, lack))
                halved = any(lack.shard.tally(name).count for name in _HALVING)
                totals[want.reader.name] += 0 if halved else lack.count
    limit = context.max_loss * context.evidence.samples
    order = {shard.url: index for index, shard in enumerate(context.evidence.shards)}
    for together in sorted(rows.values(), key=lambda row: order[row[0][1].shard.url]):
        want, lack = together[0]
        names = [item.reader.name for item, _ in together]
        ending = [item.reader.name for item, one in together if _ends(context, item.reader, one)]
        worst = bool(ending) or any(totals[name] > limit for name in names)
        yield Finding(
            code=code,
            severity="error" if worst else "warning",
            message=_message(want, lack) + _consequence(context, names, ending, lack.count),
            shard=lack.shard.url,
            key=lack.key,
            offset=lack.offset,
            count=lack.count,
            rate=min(lack.count / lack.shard.samples, 1.0) if lack.shard.samples else None,
            readers=tuple(names),
            repair=fix(context, lack),
        )


def _ends(context: Context, reader: Reader, lack: Lack) -> bool:
    """Return whether a reader ends with an exception at such samples, or because the first samples differ in fields."""
    first = lack.shard is context.evidence.shards[0]
    return crashes(context, reader, lack.shape) or (first and reader.name in context.ended_by_fields())


def _message(want: Wants, lack: Lack) -> str:
    phrases = [field_phrase(want.names[role]) for role in lack.roles]
    missing = f"neither {' nor '.join(phrases)}" if len(phrases) > 1 else f"no {phrases[0].removeprefix('a ')}"
    verb = "has" if lack.count == 1 else "have"
    them = "it has" if lack.count == 1 else "they have"
    rest = f'; {them} "{escape(lack.instead, 40)}"' if lack.instead else f" ({them} {escape(lack.fields, 80)})"
    return f"{lack.count:,} of {how_many(lack.shard.samples, 'sample')} {verb} {missing}{rest}"


def _consequence(context: Context, names: list[str], ending: list[str], count: int) -> str:
    them = "it" if count == 1 else "them"
    told = context.losing([name for name in names if name not in ending], them, them)
    if ending:
        told.append(context.ending(ending))
    return "; " + ", ".join(told)
