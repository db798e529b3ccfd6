"""Required fields that samples do not have."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from wdsflow.readers.open_clip.versions import FeedReader
from wdsflow.readers.wanted_fields import extension_of
from wdsflow.scan.caption_names import caption_name
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.layouts import layout_of
from wdsflow.scan.naming import CAPTIONS, IMAGES
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration, how_many

from ..finding import Finding, Repair
from .kit.base import Context, Rule, is_option
from .kit.field_roles import Role
from .kit.missing_fields import FieldNeeds, IncompleteSamples, field_needs, incomplete_samples
from .kit.other_names import empty_fields
from .kit.rule_loss import crashes

# The fields that readers know, and the extensions of others that may hold the same.
_USUAL: dict[Role, tuple[str, ...]] = {"caption": ("txt",), "image": IMAGE_FIELDS}
_EXTENSIONS: dict[Role, tuple[str, ...]] = {"caption": CAPTIONS, "image": IMAGES}
# Faults that split samples, which the rules in ``requires`` report.
_HALVING = ("key.again", "name.appledouble", "name.macosx", "name.mixed-prefix")
# Fields that a message lists, and letters of each.
_MOST_FIELDS = 6
_MOST_LETTERS = 40


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
    are in json. To name them: ``--caption json:FIELD`` writes txt members from json,
    ``--rename OLD=NEW`` renames fields. OpenCLIP 4 can also read them as they are:
    ``--json-text-key FIELD``, ``--text-key NAME``, ``--image-key NAME``.
    """

    code = "F101"
    severity = "error"
    of_set = True

    def check(self, context: Context) -> Iterator[Finding]:
        if not context.evidence.samples:
            return
        # The readers by what they miss.
        groups: dict[tuple[Role, tuple[str, ...]], list[str]] = {}
        for needs in field_needs(context):
            for role in needs.absent:
                groups.setdefault((role, needs.names[role]), []).append(needs.reader.name)
        layout = _layout_hint(context) if groups else ""
        for (role, names), readers in groups.items():
            yield self._finding(context, role, names, readers, layout)
            # Once is enough.
            layout = ""

    def _finding(
        self, context: Context, role: Role, names: tuple[str, ...], readers: list[str], layout: str
    ) -> Finding:
        """Return the finding for one role that no sample has.

        ``layout`` is a remark on the layout of the set.
        """
        present = _present_fields(context)
        substitute = _substitute(context, role, names, present, readers)
        fields = ", ".join(escape(name, _MOST_LETTERS) for name in present[:_MOST_FIELDS])
        if len(present) > _MOST_FIELDS:
            fields += ", ..."
        remarks = f"(fields: {fields}{substitute.hint}{layout})"
        message = f"no sample has {field_phrase(names)}{_effect(context, readers)} {remarks}"
        shard: ShardEvidence | None = None
        for other in context.evidence.shards:
            if other.runs.head is not None:
                shard = other
                break
        samples = context.evidence.samples
        first = shard.runs.head if shard else None
        return self.finding(
            message, readers, shard, first, count=samples, of=samples, fix=substitute.fix
        )


class PartialLoss(Rule):
    """A rule about samples without a field.

    It concerns either those that have a field to use instead, or those that have none.
    """

    # Each splits samples.
    requires = ("W006", "W012", "W022", "W029", "W030")
    instead: ClassVar[bool]

    def check(self, context: Context) -> Iterator[Finding]:
        # Readers for which the same samples miss the same fields share a finding.
        groups: dict[tuple[object, ...], list[_Incomplete]] = {}
        # Samples that each reader loses.
        losses: Counter[str] = Counter()
        for needs in field_needs(context):
            for samples in incomplete_samples(context, needs):
                if bool(samples.instead) != self.instead:
                    continue
                wants_label = needs.reader.pairs_with == "label"
                shard = samples.shard
                group_key = (
                    shard.url,
                    samples.roles,
                    samples.instead,
                    samples.count,
                    wants_label,
                )
                groups.setdefault(group_key, []).append(_Incomplete(needs, samples))
                if not any(shard.tally(name).count for name in _HALVING):
                    losses[needs.reader.name] += samples.count
        limit = context.max_loss * context.evidence.samples
        order = {shard.url: index for index, shard in enumerate(context.evidence.shards)}
        for group in sorted(groups.values(), key=lambda group: order[group[0].samples.shard.url]):
            is_error = any(losses[item.needs.reader.name] > limit for item in group)
            yield self._finding(context, group, is_error=is_error)

    def _finding(self, context: Context, group: "list[_Incomplete]", *, is_error: bool) -> Finding:
        """Return the finding for the same samples of some readers.

        ``is_error``: one of the readers loses too many.
        """
        names = [item.needs.reader.name for item in group]
        ended = [item.needs.reader.name for item in group if _ends(context, item)]
        samples = group[0].samples
        return self.finding(
            _message(group[0]) + _ending(context, names, ended),
            names,
            samples.shard,
            samples,
            count=samples.count,
            of=samples.shard.samples,
            severity="error" if ended or is_error else "warning",
        )


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


def _layout_hint(context: Context) -> str:
    """Return a remark on a set that is not of image-text pairs, "" if it is."""
    layout = layout_of(context.evidence.shards)
    if layout.is_image_text:
        return ""
    is_for_feed = any(isinstance(reader, FeedReader) for reader in context.readers)
    contrast = ", not image-text pairs"
    if is_for_feed:
        contrast = "; wdsflow train feeds image-text pairs only"
    return f"; the layout is {layout.text()}{contrast}"


def field_phrase(names: tuple[str, ...]) -> str:
    """Return field names as a phrase: "a txt field", "a jpg, png, jpeg or webp field"."""
    words = [escape(name, _MOST_LETTERS) for name in names]
    return f"a {enumeration(words).replace(' and ', ' or ')} field"


def _effect(context: Context, readers: list[str]) -> str:
    """Return the effect on the run; "" if samples are lost and nothing else happens.

    Such as ": OpenCLIP 3.3.0 hangs".
    """
    hanging = []
    ending = []
    for name in readers:
        verdict = context.verdict_of(name)
        if verdict is not None and verdict.outcome == "stalls":
            hanging.append(name)
        elif verdict is not None and verdict.outcome == "crashes":
            ending.append(name)
    texts = []
    if hanging:
        verb = "hang" if len(hanging) > 1 else "hangs"
        texts.append(f"{context.reader_titles(hanging)} {verb}")
    if ending:
        texts.append(context.exception_text(ending))
    return f": {'; '.join(texts)}" if texts else ""


def _present_fields(context: Context) -> list[str]:
    """Return all field names, the most frequent first."""
    counts: Counter[str] = Counter()
    for shard in context.evidence.shards:
        for name, item in shard.fields.items():
            counts[name] += item.count
    return sorted(counts, key=lambda name: (-counts[name], name))


class _Substitute(NamedTuple):
    """What may replace a missing field."""

    # A remark, "" if there is nothing to say.
    hint: str = ""
    # Flags that correct the command.
    fix: Repair | None = None


def _substitute(
    context: Context, role: Role, names: tuple[str, ...], present: list[str], readers: list[str]
) -> _Substitute:
    """Return a replacement for the missing field.

    Args:
        context: of the check.
        role: that is missing.
        names: of the fields that the readers take for it.
        present: the fields of the samples.
        readers: that need the role.
    """
    reader = context.reader_named(readers[0])
    for name in present:
        new = reader.aliases.get(name)
        if new in names:
            return _Substitute(f"; {name} may hold what it wants in {new}")
    has_json = not {"json", "jsn"}.isdisjoint(present)
    if role == "caption" and "txt" not in names and reader.pairs_with == "label":
        if "json" in present:
            return _Substitute("; a class number in json is read with target_key=NAME")
        return _Substitute()
    for name in present:
        if name in _USUAL[role] and name not in names:
            # Only the command is unusual.
            return _other_name(role, name, names)
    if role == "caption" and has_json:
        hint = _json_caption(context)
        if hint:
            return _Substitute(hint)
        is_named = not {"text", "caption", "captions"}.isdisjoint(present)
        if context.evidence.level == "names" and not is_named:
            return _Substitute("; --level headers finds the json field that holds captions")
    best = _best_extension(context, role, present)
    return _other_name(role, best, names) if best else _Substitute()


def _best_extension(context: Context, role: Role, present: list[str]) -> str:
    """Return the field with the most usual image or caption extension; "" if there is none."""
    extensions = [name for name in _EXTENSIONS[role] if name not in ("json", "jsn")]
    empty = empty_fields(context.evidence.shards)
    # Field -> its rank.
    candidates: dict[str, int] = {}
    for name in present:
        extension = extension_of(name)
        is_usable = not name.startswith("*.") and name not in empty and is_option(name)
        if is_usable and extension in extensions:
            candidates[name] = extensions.index(extension)
    return min(candidates, key=lambda name: candidates[name], default="")


def _json_caption(context: Context) -> str:
    """Return a remark on the field in json that holds captions, "" if none does."""
    best = caption_name(context.evidence.shards)
    if best is None:
        return ""
    name, entry = best
    samples = context.evidence.samples
    return (
        f'; the json field "{escape(name, 60)}" holds a caption in {entry.strings:,} of {samples:,}'
    )


def _other_name(role: Role, name: str, names: tuple[str, ...]) -> _Substitute:
    """Return a remark on the field ``name``, and a flag that corrects the command."""
    shown = escape(name, _MOST_LETTERS)
    if extension_of(name) in ("cls", "label", "class"):
        return _Substitute(f"; {shown} may hold a class label, not a caption")
    if name.endswith(".gz"):
        return _Substitute(f"; {shown} is compressed: readers keep .gz in the field name")
    hint = f"{shown} may hold the {role}"
    if name in _USUAL[role] and name not in names:
        flags = (f"--{'text' if role == 'caption' else 'image'}-key", name)
        return _Substitute(f"; {hint}", Repair("", note=hint, flags=flags))
    return _Substitute(f"; {hint}")


class _Incomplete(NamedTuple):
    """Samples without a field that a reader needs."""

    needs: FieldNeeds
    samples: IncompleteSamples


def _ends(context: Context, item: _Incomplete) -> bool:
    """Return whether a reader raises because of such samples.

    It raises at them, or because the first samples differ in fields.
    """
    reader = item.needs.reader
    if crashes(context, reader, item.samples.shape):
        return True
    is_first = item.samples.shard is context.evidence.shards[0]
    return is_first and reader.name in context.readers_ended_by_fields()


def _message(item: _Incomplete) -> str:
    samples = item.samples
    phrases = [field_phrase(item.needs.names[role]) for role in samples.roles]
    if len(phrases) > 1:
        missing = f"neither {' nor '.join(phrases)}"
    else:
        missing = f"no {phrases[0].removeprefix('a ')}"
    verb = "has" if samples.count == 1 else "have"
    they_have = "it has" if samples.count == 1 else "they have"
    if samples.instead:
        rest = f'; {they_have} "{escape(samples.instead, _MOST_LETTERS)}"'
    else:
        rest = f" ({they_have} {escape(samples.fields, 2 * _MOST_LETTERS)})"
    share = f"{samples.count:,} of {how_many(samples.shard.samples, 'sample')}"
    return f"{share} {verb} {missing}{rest}"


def _ending(context: Context, names: list[str], ended: list[str]) -> str:
    """Return which readers end with an exception, "" if none does.

    Args:
        context: of the check.
        names: of readers that lose the samples.
        ended: names of those that raise at the samples.
    """
    ended_by_fields = context.readers_ended_by_fields().intersection(names)
    ending = [name for name in context.reader_names() if name in ended or name in ended_by_fields]
    return f"; {context.exception_text(ending)}" if ending else ""
