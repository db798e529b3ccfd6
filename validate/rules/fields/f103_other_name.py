from collections.abc import Iterator

from ...advice.changes import caption_edits
from ...finding import Finding, Repair
from ..kit.base import Context, Rule
from ..kit.missing_fields import Lack
from ..kit.rule_commands import is_option, repair
from ..kit.shape_rule import wanted
from .f102_missing_in_part import partial_losses


class OtherName(Rule):
    """In some samples the image or the caption has another name.

    What: some samples lack a field that a reader needs, and have one that may hold the same: ``caption`` or ``json``
    for txt, ``gif``, ``jfif`` or ``input.jpg`` for jpg. Other samples of the set have the right field.

    Why it matters: field names are compared as wholes: ``input.jpg`` is not ``jpg``, ``txt.gz`` is not ``txt``.
    OpenCLIP drops these samples silently; webdataset 1.x ends at the first of them. Training continues with the part of
    the set that has the expected names, which may be one source of several.

    In practice: sets put together from several sources (Mobile-O#8; datasets#7055), images by their original
    extension, captions first in txt and later in json.

    Fix: ``wdsflow repair SHARD -o repaired --rename OLD=NEW`` renames a field, ``--caption json:FIELD`` writes txt
    members from json.
    """

    code = "F103"
    severity = "warning"
    requires = ("W006", "W012", "W022", "W029", "W030")  # each splits samples

    def check(self, context: Context) -> Iterator[Finding]:
        yield from partial_losses(context, self.code, instead=True, fix=self.fix)

    def fix(self, context: Context, lack: Lack) -> Repair | None:
        """Return the command that gives the field its usual name; None if none can or the reader wants another one."""
        url = lack.shard.url
        new = lack.reader.aliases.get(lack.instead, "txt" if lack.roles[0] == "caption" else "jpg")
        if new not in wanted(context, lack.reader, lack.roles[0]):
            return None
        if lack.instead in ("json", "jsn") and new == "txt":
            edits = caption_edits([lack.shard])
            return repair([url], *edits.options()) if edits is not None else None
        if not is_option(lack.instead) or lack.instead in lack.reader.undecoded:
            return None
        note = "other readers than OpenCLIP may want jpg to be JPEG" if new == "jpg" else ""
        return repair([url], "--rename", f"{lack.instead}={new}", note=note)
