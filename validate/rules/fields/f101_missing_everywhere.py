from collections import Counter
from collections.abc import Iterator

from wdsflow.readers.base import Reader
from wdsflow.readers.installed_versions import release
from wdsflow.scan.json_captions import caption_name
from wdsflow.scan.naming import CAPTIONS, IMAGES
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many, listed

from ...advice.changes import caption_edits
from ...advice.other_names import empty_fields
from ...finding import Finding, Repair
from ...verdicts.verdict import Verdict
from ..kit.base import Context, Rule
from ..kit.layout_text import layout_hint
from ..kit.missing_fields import Role, Wants, wants
from ..kit.rule_commands import is_option, repair


class MissingEverywhere(Rule):
    """No sample has the field that training needs.

    What: a reader needs an image field (jpg, png, jpeg or webp) and a caption field (txt), and no sample has one of the
    two. The message names the fields that samples have, and the place of the captions if they were found.

    Why it matters: OpenCLIP's filter silently drops a sample that lacks either. webdataset up to 0.2.88, which OpenCLIP
    pins, then reads its shards again and again: training hangs at "Start epoch 0" with the GPU at 0 % and no message.
    webdataset 1.x raises an error at the first sample; Hugging Face datasets give None.

    In practice: captions in json only (open_clip#1016), class labels in .cls (open_clip#569), ``input.jpg`` and
    ``outputs.txt`` (open_clip#480), ``.txt.gz``, ``.caption``, images as .gif or .tif.

    Fix: ``wdsflow repair URL... -o repaired --caption json:FIELD`` writes txt members from json, ``--rename OLD=NEW``
    renames fields. OpenCLIP 4 can also read them as they are: ``--json-text-key FIELD``, ``--text-key NAME``,
    ``--image-key NAME``.
    """

    code = "F101"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        groups: dict[tuple[Role, tuple[str, ...]], list[Wants]] = {}
        if context.evidence.samples:
            for want in wants(context):
                for role in want.absent:
                    groups.setdefault((role, want.names[role]), []).append(want)
        layout = layout_hint(context) if groups else ""
        for (role, names), wanting in groups.items():
            yield self.finding(context, role, names, [want.reader.name for want in wanting], layout)
            layout = ""  # once is enough

    def finding(self, context: Context, role: Role, names: tuple[str, ...], hurt: list[str], layout: str) -> Finding:
        """Return the finding for one role that no sample has; ``layout`` is a remark on the layout of the set."""
        samples = context.evidence.samples
        shards = [shard for shard in context.evidence.shards if shard.runs.head is not None]
        head = shards[0].runs.head if shards else None
        have = _fields(context)
        hint, fix = _instead(context, role, names, have, hurt)
        fields = ", ".join(escape(name, 40) for name in have[:6]) + (", ..." if len(have) > 6 else "")
        return Finding(
            code=self.code,
            severity=self.severity,
            message=f"no sample has {field_phrase(names)}: {_what_happens(context, hurt)} (fields: {fields}{hint}{layout})",
            shard=shards[0].url if shards else None,
            key=head.key if head else None,
            offset=head.offset if head else None,
            count=samples,
            rate=1.0,
            readers=tuple(hurt),
            repair=fix,
        )


def field_phrase(names: tuple[str, ...]) -> str:
    """Return field names as a phrase: "a txt field", "a jpg, png, jpeg or webp field"."""
    words = [escape(name, 40) for name in names]
    return f"a {listed(words).replace(' and ', ' or ')} field"


def _what_happens(context: Context, hurt: list[str]) -> str:
    verdicts = {verdict.reader: verdict for verdict in context.verdicts}
    groups: dict[str, list[str]] = {}
    for name in hurt:
        groups.setdefault(_outcome(verdicts.get(name)), []).append(name)
    samples = context.evidence.samples
    all_of_them = f"{samples:,} of {how_many(samples, 'sample')}"
    told = []
    for outcome, names in groups.items():
        if outcome == "crashes":
            told.append(context.ending(names))
        else:
            hangs = f", and hang{'' if len(names) > 1 else 's'}" if outcome == "stalls" else ""
            told += [f"{each}{hangs}" for each in context.losing(names, all_of_them, all_of_them)]
    return "; ".join(told)


def _outcome(verdict: Verdict | None) -> str:
    return verdict.outcome if verdict else ""


def _fields(context: Context) -> list[str]:
    """Return all field names, the most frequent first."""
    counts: Counter[str] = Counter()
    for shard in context.evidence.shards:
        counts.update({name: item.count for name, item in shard.fields.items()})
    return sorted(counts, key=lambda name: (-counts[name], name))


def _instead(
    context: Context, role: Role, names: tuple[str, ...], have: list[str], hurt: list[str]
) -> tuple[str, Repair | None]:
    """Return a replacement for the missing field, as a remark and as a command."""
    if alias := _alias(context, names, have, hurt):
        return alias
    if role == "caption" and "txt" not in names and _reader(context, hurt).pairs_with == "label":
        json = "; a class number in json is read with target_key=NAME" if "json" in have else ""
        return json, None
    usual = {"txt"} if role == "caption" else {"jpg", "png", "jpeg", "webp"}
    if there := [name for name in have if name in usual and name not in names]:  # only the command is odd
        return _rename(context, role, there[0], names, hurt)
    if role == "caption" and {"json", "jsn"} & set(have):
        found = _json_caption(context, names, hurt)
        if found is not None:
            return found
        if context.evidence.level == "names" and not {"text", "caption", "captions"} & set(have):
            return "; --level headers finds the json field that holds captions", None
    known = CAPTIONS if role == "caption" else IMAGES
    hollow = empty_fields(context.evidence.shards)
    for candidate in known:
        for name in have:
            if (
                not name.startswith("*.")
                and name not in hollow
                and name.removesuffix(".gz").rpartition(".")[2] == candidate
                and candidate not in ("json", "jsn")
                and is_option(name)
            ):
                return _rename(context, role, name, names, hurt)
    return "", None


def _reader(context: Context, hurt: list[str]) -> Reader:
    return next(reader for reader in context.readers if reader.name == hurt[0])


def _alias(context: Context, names: tuple[str, ...], have: list[str], hurt: list[str]) -> tuple[str, Repair] | None:
    """Return a field that the reader would take under one of the wanted ``names``; None if there is none."""
    aliases = _reader(context, hurt).aliases
    name = next((name for name in have if aliases.get(name) in names), None)
    if name is None:
        return None
    new = aliases[name]
    return f"; {name} may hold what it wants in {new}", repair(context.targets(), "--rename", f"{name}={new}")


def _json_caption(context: Context, names: tuple[str, ...], hurt: list[str]) -> tuple[str, Repair | None] | None:
    best = caption_name(context.evidence.shards)
    if best is None:
        return None
    name, entry = best
    edits = caption_edits(context.evidence.shards)
    samples = context.evidence.samples
    note = _open_clip_4(context, hurt, f"--json-text-key {name}") if entry.plain == entry.strings else ""
    return (
        f'; the json field "{escape(name, 60)}" holds a caption in {entry.strings:,} of {samples:,}',
        repair(context.targets(), *edits.options(), note=note) if edits is not None and "txt" in names else None,
    )


def _rename(
    context: Context, role: Role, name: str, names: tuple[str, ...], hurt: list[str]
) -> tuple[str, Repair | None]:
    """Return how to give the field ``name`` one of the wanted ``names``, or how to correct the command."""
    shown, usual = escape(name, 40), ("txt",) if role == "caption" else ("jpg", "png", "jpeg", "webp")
    new = next((each for each in (*usual, *names) if each in names and each not in ("json", "jsn")), "")
    key = f"--{'text' if role == 'caption' else 'image'}-key"
    if name.removesuffix(".gz").rpartition(".")[2] in ("cls", "label", "class"):
        return f"; {shown} may hold a class label, not a caption", None
    if name.endswith(".gz"):
        unpacked = repair(context.targets(), "--rename", f"{name}={new}", note="unpacks the fields") if new else None
        return f"; {shown} is compressed: readers keep .gz in the field name", unpacked
    hint = f"; {shown} may hold the {role}"
    if name in usual and name not in names:
        return hint, Repair("", note=f"{shown} may hold the {role}", flags=(key, name))
    note = _open_clip_4(context, hurt, f"{key} {shown}")
    if name == new:  # upper case: every repair writes lower case
        return hint, repair(context.targets(), note=note)
    return hint, repair(context.targets(), "--rename", f"{name}={new}", note=note) if new else None


def _open_clip_4(context: Context, hurt: list[str], flag: str) -> str:
    """Return the flag as advice if OpenCLIP 4 is one of the readers."""
    at_hand = "open-clip-4" in hurt or release(context.environment.get("open_clip_torch", "")) >= (4,)
    return f"or train with {flag} (OpenCLIP 4)" if at_hand else ""
