from wdsflow.scan.evidence import NO_CAPTION, ShardEvidence, Tally
from wdsflow.scan.json_captions import caption_name
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ..kit.rule_loss import LossRule


class NoJsonCaption(LossRule):
    """The json has no caption under the given name.

    What: with ``--json-text-key``, some json members have no caption under any of these names: the name is missing, or
    its value is null, a number, a list or only white space.

    Why it matters: OpenCLIP 4 reads an empty caption and silently drops the sample. If the name is misspelt, all
    samples are dropped, and training hangs.

    In practice: ``--json-text-key captions`` where the field is called ``caption``; lists of captions; null if the
    captioner failed.

    Fix: name the right field, or several in order of preference: ``--json-text-key "caption;text"``. ``wdsflow inspect
    SHARD`` lists all names with an example.
    """

    code = "F108"
    requires = ("F107",)
    capped = False
    statuses = (NO_CAPTION,)
    drops_bad = True

    def seen(self, shard: ShardEvidence) -> Tally:
        tally = Tally()
        for item in shard.runs.counted():
            if any(part.status == NO_CAPTION for part in item.shape):
                tally.add(item.key, item.offset, count=item.count)
        return tally

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        best = caption_name([shard])
        hint = ""
        if best is not None:
            name, found = best
            kind = "a string" if found.plain == found.strings else "a caption, but deeper or in a list,"
            hint = f' ("{escape(name, 60)}" holds {kind} in {how_many(found.strings, "sample")})'
        of = f"{count:,} of {how_many(shard.samples, 'sample')}"
        return f"{of} {'has' if count == 1 else 'have'} no caption under the wanted json names{hint}"
