"""Images in formats that only rare plugins of Pillow open; all but the animation tell their size far behind their start."""

import io
import random
import struct

from PIL import Image

LONG = 6_000  # bytes before the pixels: more than the 4 KiB of a quick look


def psd(width: int = 20, height: int = 16) -> bytes:
    """Return a Photoshop file with a block of resources, such as a preview."""
    head = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, height, width, 8, 3)
    resource = b"8BIM" + struct.pack(">H", 1036) + b"\0\0" + struct.pack(">I", LONG) + bytes(LONG)
    sections = struct.pack(">I", 0) + struct.pack(">I", len(resource)) + resource + struct.pack(">I", 0)
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
    palette = [f'"{name} c #{number:02X}40{255 - number:02X}",' for number, name in enumerate(names)]
    rows = [f'"{"".join(names[row * side : (row + 1) * side])}",' for row in range(side)]
    lines = ["/* XPM */", "static char *x[] = {", f'"{side} {side} {side * side} 3",', *palette, *rows, "};"]
    return "\n".join(lines).encode()


def fli(width: int = 16, height: int = 8) -> bytes:
    """Return an animation of one frame."""
    lines = bytes((1, width, 5)) * height  # each a run of one colour
    pixels = struct.pack("<IH", 6 + len(lines), 15) + lines
    frame = struct.pack("<IHH8x", 16 + len(pixels), 0xF1FA, 1) + pixels
    head = struct.pack("<IHHHHHHH", 128 + len(frame), 0xAF11, 1, width, height, 8, 3, 0)
    return head.ljust(128, b"\0") + frame


RARE = {"psd": psd, "dcx": dcx, "xpm": xpm, "fli": fli}
