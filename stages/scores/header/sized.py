"""Headers with the size of their image."""

from wdsflow.images.header import ImageHeader

from ..score_errors import ScoreError


def sized(header: ImageHeader) -> ImageHeader:
    """Return the header. Raises ScoreError "unknown-size" if it does not tell width and height."""
    if header.width and header.height:
        return header
    raise ScoreError("unknown-size", f"the header of this {header.format} has no width and height")
