"""Whether a decoded value fits into the column that Hugging Face datasets makes of its field."""

from wdsflow.scan.content.fitting import ColumnCheck

from .member_contents import MemberNotes
from .statuses import MISFIT, UNKNOWN


def status_in_column(column: ColumnCheck, status: str, data: bytes, notes: MemberNotes) -> str:
    """Return the status of a member in its column.

    This is ``status``, with MISFIT appended if the content does not fit the column. UNKNOWN if it
    cannot be determined whether it fits.
    """
    converts = column.converts(data)
    if converts is None:
        return UNKNOWN
    if column.unwritable:
        notes.add(("column.unwritable",), f"{column.suffix}: {column.unwritable}")
    if column.other_type:
        notes.add(("column.other-type",), column.suffix)
    if converts:
        return status
    notes.add(("column.misfit",), f"{column.suffix}: {column.error}")
    return status + MISFIT
