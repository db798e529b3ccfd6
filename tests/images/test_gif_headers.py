"""Headers of GIFs with every kind of palette and extension, compared with Pillow."""

from io import BytesIO
from itertools import product

import pytest
from PIL import Image

from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import read_header

COLOURS = bytes(range(255, 255 - 12, -1))
GREYS = bytes(value for level in range(4) for value in (level, level, level))
PALETTES = {"none": b"", "coloured": COLOURS, "greys": GREYS}
FRAME = b"\x02\x02\x44\x01\x00"


def gif(
    screen: str, local: str, extension: bytes = b"", *, other: int = 0, frames: int = 1
) -> bytes:
    """Return a GIF with a palette of four colours for the screen, the frame, both or none.

    ``other``: additional flags.
    """

    def flags(palette: str) -> int:
        return (0x81 if PALETTES[palette] else 0) | other

    head = b"GIF89a\x05\0\x07\0" + bytes([flags(screen), 0, 0]) + PALETTES[screen]
    frame = b"," + bytes([1, 0, 2, 0, 9, 0, 3, 0, flags(local)]) + PALETTES[local] + FRAME
    return head + extension + frame * frames + b";"


def header(data: bytes) -> ImageHeader:
    found = read_header(data)
    assert found is not None
    return found


@pytest.mark.parametrize("other", [0, 0x40, 0x08, 0x20])
@pytest.mark.parametrize(("screen", "local"), list(product(PALETTES, PALETTES)))
def test_size_mode_and_interlacing_are_those_of_pillow(screen: str, local: str, other: int) -> None:
    data = gif(screen, local, other=other)
    found = header(data)
    with Image.open(BytesIO(data)) as image:
        assert (found.width, found.height, found.mode) == (*image.size, image.mode)
    assert found.progressive == (other == 0x40)
    assert not found.animated


@pytest.mark.parametrize("flag", [0x01, 0x02, 0x07])
def test_a_palette_is_there_by_its_flag_and_not_by_its_size(flag: int) -> None:
    data = gif("none", "none", other=flag)
    assert (header(data).width, header(data).mode) == (10, "L")


@pytest.mark.parametrize(
    ("extension", "alpha", "animated"),
    [
        (b"", False, False),
        (b"!\xf9\x04\x01\0\0\0\0", True, False),
        (b"!\xf9\x04\x1c\0\0\0\0", False, False),
        (b"!\xf9\x03\x01\0\0\0", False, False),
        (b"!\xf9\x05\x01\0\0\0\0\0", True, False),
        (b"!\xf9\x04\x01\0\0\0\0!\xf9\x04\x00\0\0\0\0", False, False),
        (b"!\xfe\x03abc\0\0\0", False, False),
        (b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0", False, True),
        (b"!\xff\x0bANIMEXTS1.0\x03\x01\0\0\0", False, True),
        (b"!\xff\x0bXMP DataXMP\x03\x01\0\0\0", False, False),
        (b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0!\xff\x0bXMP DataXMP\x03\x01\0\0\0", False, True),
        (b"!\x01\x0bNETSCAPE2.0\x03\x01\0\0\0", False, False),
    ],
)
def test_extensions_tell_of_transparency_and_loops(
    extension: bytes, alpha: bool, animated: bool
) -> None:
    found = header(gif("coloured", "none", extension))
    assert (found.width, found.alpha, found.animated) == (10, alpha, animated)
    assert header(gif("coloured", "none", extension, frames=2)).animated


def test_a_header_that_is_cut_anywhere_asks_for_more_and_is_whole_with_its_frame() -> None:
    data = gif("coloured", "greys", b"!\xfe\x03abc\0")
    last = data.index(FRAME)
    for length in range(6, last):
        found = header(data[:length])
        assert found.width == 0, length
        assert found.needs > length
    whole = header(data[:last])
    assert (whole.width, whole.height) == (10, 7)
    assert header(b"GIF89a\x05\0\x07\0\0\0\0;").width == 0
