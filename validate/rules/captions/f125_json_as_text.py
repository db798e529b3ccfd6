from collections.abc import Iterator

from wdsflow.readers.base import split_keys
from wdsflow.scan.json_captions import caption_name
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...advice.changes import caption_edits
from ...finding import Finding, Repair
from ..kit.base import Context, Rule
from ..kit.rule_commands import repair
from ..kit.shape_rule import fields_in, folded


class JsonAsText(Rule):
    """The raw json is taken for the caption.

    What: ``--text-key`` names ``json``, and samples have it.

    Why it matters: OpenCLIP 4 takes the bytes of the field for the caption: it tokenizes braces, names and urls, and
    the 77 tokens are full before the caption begins. With 3.3 and a custom pipeline that renames json to text it is
    worse: the tokenizer iterates over the dict, and the caption of every image is its first name. The loss falls a
    little and nothing reports an error.

    In practice: the quick fix for captions in json (see the maintainer's warning in open_clip#1016).

    Fix: read one field of it: ``--json-text-key FIELD`` (OpenCLIP 4), or write txt members:
    ``wdsflow repair URL... -o repaired --caption json:FIELD``
    """

    code = "F125"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        for reader in context.readers:
            names = split_keys(reader.options.text_key)
            if reader.options.json_text_key or "json" not in names:
                continue
            better = set(names[: names.index("json")])
            count, place = 0, None
            for shard in context.evidence.shards:
                for item in folded(context, reader, shard):
                    fields = fields_in(item.shape)
                    if "json" in fields and not fields & better and context.usable(reader, item.shape):
                        count += item.count
                        place = place or (shard.url, item)
            if place is None:
                continue
            yield Finding(
                code=self.code,
                severity=self.severity,
                message=f"{how_many(count, 'sample has', 'samples have')} the raw json as caption "
                f"({context.titles([reader.name])} with --text-key): braces and names are tokenized",
                shard=place[0],
                key=place[1].key,
                offset=place[1].offset,
                count=count,
                readers=(reader.name,),
                repair=_fix(context),
            )


def _fix(context: Context) -> Repair | None:
    named, edits = caption_name(context.evidence.shards), caption_edits(context.evidence.shards)
    if named is None or edits is None:
        return None
    note = f"or train with --json-text-key {escape(named[0], 60)}" if named[1].plain == named[1].strings else ""
    return repair(context.targets(), *edits.options(), note=note)
