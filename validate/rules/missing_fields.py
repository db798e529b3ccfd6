"""Required fields that samples lack."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import ClassVar

from wdsflow.readers.base import Reader
from wdsflow.scan.layouts import layout_of
from wdsflow.scan.naming import CAPTIONS, IMAGES, caption_name
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed

from ..finding import Finding, Repair
from .kit.base import Context, Rule, is_option
from .kit.shape_edits import empty_fields
from .kit.shapes import Lack, Role, Wants, crashes, lacks, wants


class MissingEverywhere(Rule):
    """No sample has the field that training needs.

    What: a reader needs an image field (jpg, png, jpeg or webp) and a caption field (txt), and no
    sample has one of the two. The message names the fields that samples have, and the place of the
    captions if they were found.

    Why it matters: OpenCLIP's filter silently drops a sample that lacks either. webdataset up to
    0.2.88, which OpenCLIP pins, then reads its shards again and again: training hangs at "Start
    epoch 0" with the GPU at 0 % and no message. webdataset 1.x raises an error at the first sample;
    Hugging Face datasets give None.

    In practice: captions in json only (open_clip#1016), class labels in .cls (open_clip#569),
    ``input.jpg`` and ``outputs.txt`` (open_clip#480), ``.txt.gz``, ``.caption``, images as .gif or
    .tif.

    Fix: ``wdsflow repair URL... -o repaired`` finds images and captions that have another name, or
    are in json. To name them: ``--caption json:FIELD`` writes txt members from json, ``--rename
    OLD=NEW`` renames fields. OpenCLIP 4 can also read them as they are: ``--json-text-key FIELD``,
    ``--text-key NAME``, ``--image-key NAME``.
    """

    code = "F101"
    severity = "error"
    of_set = True

    def check(self, context: Context) -> Iterator[Finding]:
        groups: dict[tuple[Role, tuple[str, ...]], list[Wants]] = {}
        if context.evidence.samples:
            for want in wants(context):
                for role in want.absent:
                    groups.setdefault((role, want.names[role]), []).append(want)
        layout = _layout_hint(context) if groups else ""
        for (role, names), wanting in groups.items():
            yield self._finding(
                context, role, names, [want.reader.name for want in wanting], layout
            )
            # Once is enough.
            layout = ""

    def _finding(
        self, context: Context, role: Role, names: tuple[str, ...], readers: list[str], layout: str
    ) -> Finding:
        """Return the finding for one role that no sample has; ``layout`` is a remark on the layout of the set."""
        shard = next(
            (shard for shard in context.evidence.shards if shard.runs.head is not None), None
        )
        have = _fields(context)
        hint, fix = _instead(context, role, names, have, readers)
        fields = ", ".join(escape(name, 40) for name in have[:6]) + (
            ", ..." if len(have) > 6 else ""
        )
        message = f"no sample has {field_phrase(names)}{_effect(context, readers)} (fields: {fields}{hint}{layout})"
        samples, place = context.evidence.samples, shard.runs.head if shard else None
        return self.found(message, readers, shard, place, count=samples, of=samples, fix=fix)


def _layout_hint(context: Context) -> str:
    """Return a remark on a set that is not of image-text pairs, "" if it is."""
    layout = layout_of(context.evidence.shards)
    if layout.is_image_text:
        return ""
    feed = "wdsflow-train" in context.names()
    return f"; the layout is {layout.text()}{'; wdsflow train feeds image-text pairs only' if feed else ', not image-text pairs'}"


def field_phrase(names: tuple[str, ...]) -> str:
    """Return field names as a phrase: "a txt field", "a jpg, png, jpeg or webp field"."""
    words = [escape(name, 40) for name in names]
    return f"a {listed(words).replace(' and ', ' or ')} field"


def _effect(context: Context, readers: list[str]) -> str:
    """Return what it means for the run: ": OpenCLIP 3.3.0 hangs"; "" where samples are lost and nothing else happens."""
    outcomes = {verdict.reader: verdict.outcome for verdict in context.verdicts}
    hanging = [name for name in readers if outcomes.get(name) == "stalls"]
    ending = [name for name in readers if outcomes.get(name) == "crashes"]
    texts = [f"{context.titles(hanging)} hang{'' if len(hanging) > 1 else 's'}"] if hanging else []
    texts += [context.ending(ending)] if ending else []
    return f": {'; '.join(texts)}" if texts else ""


def _fields(context: Context) -> list[str]:
    """Return all field names, the most frequent first."""
    counts: Counter[str] = Counter()
    for shard in context.evidence.shards:
        counts.update({name: item.count for name, item in shard.fields.items()})
    return sorted(counts, key=lambda name: (-counts[name], name))


_USUAL: dict[Role, tuple[str, ...]] = {"caption": ("txt",), "image": IMAGE_FIELDS}


def _instead(
    context: Context, role: Role, names: tuple[str, ...], have: list[str], readers: list[str]
) -> tuple[str, Repair | None]:
    """Return a replacement for the missing field, as a remark and as a command."""
    reader = next(reader for reader in context.readers if reader.name == readers[0])
    if alias := next((name for name in have if reader.aliases.get(name) in names), None):
        new = reader.aliases[alias]
        return f"; {alias} may hold what it wants in {new}", None
    if role == "caption" and "txt" not in names and reader.pairs_with == "label":
        json = "; a class number in json is read with target_key=NAME" if "json" in have else ""
        return json, None
    # Only the command is unusual.
    if there := [name for name in have if name in _USUAL[role] and name not in names]:
        return _rename(role, there[0], names)
    if role == "caption" and {"json", "jsn"} & set(have):
        found = _json_caption(context)
        if found:
            return found, None
        if context.evidence.level == "names" and not {"text", "caption", "captions"} & set(have):
            return "; --level headers finds the json field that holds captions", None
    known = [
        name for name in (CAPTIONS if role == "caption" else IMAGES) if name not in ("json", "jsn")
    ]
    empty = empty_fields(context.evidence.shards)
    usable = [
        name for name in have if not name.startswith("*.") and name not in empty and is_option(name)
    ]
    lasts = {name: name.removesuffix(".gz").rpartition(".")[2] for name in usable}
    fit = [name for name in usable if lasts[name] in known]
    best = min(fit, key=lambda name: known.index(lasts[name]), default="")
    return _rename(role, best, names) if best else ("", None)


def _json_caption(context: Context) -> str:
    best = caption_name(context.evidence.shards)
    if best is None:
        return ""
    name, entry = best
    samples = context.evidence.samples
    return (
        f'; the json field "{escape(name, 60)}" holds a caption in {entry.strings:,} of {samples:,}'
    )


def _rename(role: Role, name: str, names: tuple[str, ...]) -> tuple[str, Repair | None]:
    """Return a remark on the field ``name``, and a flag that corrects the command."""
    shown = escape(name, 40)
    key = f"--{'text' if role == 'caption' else 'image'}-key"
    if name.removesuffix(".gz").rpartition(".")[2] in ("cls", "label", "class"):
        return f"; {shown} may hold a class label, not a caption", None
    if name.endswith(".gz"):
        return f"; {shown} is compressed: readers keep .gz in the field name", None
    hint = f"; {shown} may hold the {role}"
    if name in _USUAL[role] and name not in names:
        return hint, Repair("", note=f"{shown} may hold the {role}", flags=(key, name))
    return hint, None


# Reported by the rules in `requires`.
_HALVING = ("key.again", "name.appledouble", "name.macosx", "name.mixed-prefix")


class PartialLoss(Rule):
    """A rule about samples that lack a field: those that have a field to use instead, or those that have none."""

    # Each splits samples.
    requires = ("W006", "W012", "W022", "W029", "W030")
    instead: ClassVar[bool]

    def check(self, context: Context) -> Iterator[Finding]:
        rows: dict[tuple[object, ...], list[tuple[Wants, Lack]]] = defaultdict(list)
        totals: Counter[str] = Counter()
        for want in wants(context):
            for lack in lacks(context, want):
                if bool(lack.instead) == self.instead:
                    labels = want.reader.pairs_with == "label"
                    rows[lack.shard.url, lack.roles, lack.instead, lack.count, labels].append(
                        (want, lack)
                    )
                    halved = any(lack.shard.tally(name).count for name in _HALVING)
                    totals[want.reader.name] += 0 if halved else lack.count
        limit = context.max_loss * context.evidence.samples
        order = {shard.url: index for index, shard in enumerate(context.evidence.shards)}
        for together in sorted(rows.values(), key=lambda row: order[row[0][1].shard.url]):
            want, lack = together[0]
            names = [item.reader.name for item, _ in together]
            ending = [
                item.reader.name for item, one in together if _ends(context, item.reader, one)
            ]
            yield self.found(
                _message(want, lack) + _ending(context, names, ending),
                names,
                lack.shard,
                lack,
                count=lack.count,
                of=lack.shard.samples,
                severity="error"
                if ending or any(totals[name] > limit for name in names)
                else "warning",
            )


def _ends(context: Context, reader: Reader, lack: Lack) -> bool:
    """Return whether a reader raises at such samples, or because the first samples differ in fields."""
    first = lack.shard is context.evidence.shards[0]
    return crashes(context, reader, lack.shape) or (
        first and reader.name in context.ended_by_fields()
    )


def _message(want: Wants, lack: Lack) -> str:
    phrases = [field_phrase(want.names[role]) for role in lack.roles]
    missing = (
        f"neither {' nor '.join(phrases)}"
        if len(phrases) > 1
        else f"no {phrases[0].removeprefix('a ')}"
    )
    verb = "has" if lack.count == 1 else "have"
    them = "it has" if lack.count == 1 else "they have"
    rest = (
        f'; {them} "{escape(lack.instead, 40)}"'
        if lack.instead
        else f" ({them} {escape(lack.fields, 80)})"
    )
    return f"{lack.count:,} of {how_many(lack.shard.samples, 'sample')} {verb} {missing}{rest}"


def _ending(context: Context, names: list[str], ending: list[str]) -> str:
    by_fields = context.ended_by_fields()
    ended = [
        name for name in context.names() if name in ending or (name in names and name in by_fields)
    ]
    return f"; {context.ending(ended)}" if ended else ""


class MissingInPart(PartialLoss):
    """Some samples lack the image or the caption.

    What: some samples lack a field that a reader needs and that other samples have, and no other
    field of theirs can serve instead.

    Why it matters: OpenCLIP drops them silently and without a count; an epoch then has fewer
    samples than ``--train-num-samples``, and repeats the rest to fill up. webdataset 1.x ends at
    the first of them. Hugging Face datasets and Ray Data give None.

    In practice: downloads where the image failed and only the json was kept, captions removed by a
    filter, README.md and other files that become separate samples (open_clip PR#179; Mobile-O#8).

    Fix: ``wdsflow repair URL... -o repaired`` finds images and captions that have another name, or
    are in json. Then ``--drop-bad`` leaves out samples that still lack one, so that counts are
    correct. ``wdsflow inspect SHARD`` lists the fields of samples.
    """

    code = "F102"
    instead = False


class OtherName(PartialLoss):
    """In some samples the image or the caption has another name.

    What: some samples lack a field that a reader needs, and have one that may hold the same:
    ``caption`` or ``json`` for txt, ``gif``, ``jfif`` or ``input.jpg`` for jpg. Other samples of
    the set have the right field.

    Why it matters: field names are compared as wholes: ``input.jpg`` is not ``jpg``, ``txt.gz`` is
    not ``txt``. OpenCLIP drops these samples silently; webdataset 1.x ends at the first of them.
    Training continues with the part of the set that has the expected names, which may be one source
    of several.

    In practice: sets put together from several sources (Mobile-O#8; datasets#7055), images by their
    original extension, captions first in txt and later in json.

    Fix: ``wdsflow repair URL... -o repaired`` gives these fields the usual name, and takes captions
    from json. To name them: ``--rename OLD=NEW`` renames a field, ``--caption json:FIELD`` writes
    txt members from json.
    """

    code = "F103"
    instead = True
