from wdsflow.scan.evidence import NOT_UTF8, ShardEvidence
from wdsflow.text.words import how_many

from ..kit.rule_loss import LossRule


class CaptionNotUtf8(LossRule):
    """Captions are not UTF-8.

    What: text members whose bytes do not decode: Latin-1, Windows-1252, UTF-16, or damage.

    Why it matters: OpenCLIP 3.3 decodes them strictly; the UnicodeDecodeError drops the sample with a warning that
    names neither key nor shard. OpenCLIP 4 drops them silently. webdataset 1.x, Hugging Face datasets and Ray Data end
    with an exception.

    In practice: "'utf-8' codec can't decode byte 0x92 in position 12" for typographic quotes from Windows; captions
    written by PowerShell, which is UTF-16 (joy-caption-batch#1; FluxTrainer#14).

    Fix: ``wdsflow repair SHARD -o repaired --caption json:FIELD`` takes the caption in the json, where there is one;
    with ``--drop-bad`` it leaves the others out. To read them in their encoding: the stage
    ``CleanText(fallback="cp1252")`` in a pipeline, or ``stages: [{clean_text: {fallback: cp1252}}]`` in a recipe of
    ``wdsflow filter``.
    """

    code = "F109"
    tallies = ("text.not-utf8",)
    statuses = (NOT_UTF8,)
    drops_bad = True

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        told = f"{how_many(count, 'caption is', 'captions are')} not UTF-8"
        return f'{told} (if they are Windows text, the stage CleanText(fallback="cp1252") decodes them)'
