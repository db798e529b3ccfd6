"""Whether a decoded value fits into the column that Hugging Face datasets makes of its field."""

from wdsflow.scan.content.fitting import ColumnCheck

from .member_contents import MemberNotes
from .statuses import MISFIT, UNKNOWN


def status_in_column(column: ColumnCheck, status: str, data: bytes, notes: MemberNotes) -> str:
    """Return the status of a member with this content, with MISFIT after it if it does not fit; UNKNOWN if that is unknown."""
    takes = column.takes(data)
    if takes is None:
        return UNKNOWN
    if column.unwritable:
        notes.add(("column.unwritable",), f"{column.suffix}: {column.unwritable}")
    if column.other_type:
        notes.add(("column.other-type",), column.suffix)
    if takes:
        return status
    notes.add(("column.misfit",), f"{column.suffix}: {column.error}")
    return status + MISFIT
