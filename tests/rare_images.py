"""Images in formats that only rare plugins of Pillow open.

All except the animation have their size far from the start of the file.
"""

import io
import random
import struct

from PIL import Image

LONG = 6_000  # bytes before the pixels: more than the 4 KiB of a quick look


def psd(width: int = 20, height: int = 16) -> bytes:
    """Return a Photoshop file with a block of resources, such as a preview."""
    head = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, height, width, 8, 3)
    resource = b"8BIM" + struct.pack(">H", 1036) + b"\0\0" + struct.pack(">I", LONG) + bytes(LONG)
    sections = (
        struct.pack(">I", 0) + struct.pack(">I", len(resource)) + resource + struct.pack(">I", 0)
    )
    return head + sections + struct.pack(">H", 0) + random.Random(1).randbytes(3 * width * height)


def dcx() -> bytes:
    """Return a fax of one page, far behind its directory."""
    page = io.BytesIO()
    Image.effect_noise((20, 20), 60).convert("RGB").save(page, "PCX")
    directory = struct.pack("<III", 987654321, LONG, 0)
    return directory.ljust(LONG, b"\0") + page.getvalue()


def xpm(side: int = 16) -> bytes:
    """Return an X pixmap with a palette of as many colours as pixels."""
    names = [f"{number:03x}" for number in range(side * side)]
    palette = [
        f'"{name} c #{number:02X}40{255 - number:02X}",' for number, name in enumerate(names)
    ]
    rows = [f'"{"".join(names[row * side : (row + 1) * side])}",' for row in range(side)]
    lines = [
        "/* XPM */",
        "static char *x[] = {",
        f'"{side} {side} {side * side} 3",',
        *palette,
        *rows,
        "};",
    ]
    return "\n".join(lines).encode()


def fli(width: int = 16, height: int = 8) -> bytes:
    """Return an animation of one frame."""
    lines = bytes((1, width, 5)) * height  # each a run of one colour
    pixels = struct.pack("<IH", 6 + len(lines), 15) + lines
    frame = struct.pack("<IHH8x", 16 + len(pixels), 0xF1FA, 1) + pixels
    head = struct.pack("<IHHHHHHH", 128 + len(frame), 0xAF11, 1, width, height, 8, 3, 0)
    return head.ljust(128, b"\0") + frame


def eps(side: int = 8) -> bytes:
    """Return a drawing in PostScript, which Pillow hands to Ghostscript."""
    head = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 {side} {side}\n%%EndComments\n"
    return f"{head}0 0 {side} {side} rectfill\nshowpage\n%%EOF\n".encode()


def iptc(inside: bytes, side: int = 8) -> bytes:
    """Return a file in the format IPTC, whose pixels are an image in any other format."""
    fields = [
        ((3, 60), b"\1\0"),
        ((3, 20), bytes([side])),
        ((3, 30), bytes([side])),
        ((3, 120), b"\5"),
        ((8, 10), inside),
    ]
    return b"".join(struct.pack(">BBBH", 0x1C, *tag, len(data)) + data for tag, data in fields)


def deep_png() -> bytes:
    """Return an image of 16 bits a pixel, half of them above 255."""
    stream = io.BytesIO()
    pixels = [number * 64 % 65_536 for number in range(32 * 32)]
    Image.frombytes("I;16", (32, 32), struct.pack("<1024H", *pixels)).save(stream, "PNG")
    return stream.getvalue()


RARE = {"psd": psd, "dcx": dcx, "xpm": xpm, "fli": fli}
