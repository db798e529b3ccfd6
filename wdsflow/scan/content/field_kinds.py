"""Which of webdataset's decoders gets a field, by its name."""

import re
from functools import lru_cache

# The extensions that webdataset hands to Pillow; the list has stood unchanged from 0.2.86 to 1.x.
IMAGE_EXTENSIONS = frozenset(
    "apng blp bmp bufr bw cur dcx dds dib emf eps fit fits flc fli ftc ftu gbr gif grib h5 hdf icb icns ico iim im "
    "j2c j2k jfif jp2 jpc jpe jpeg jpf jpg jpx mpeg mpg msp pbm pcd pcx pgm png pnm ppm ps psd pxr ras rgb rgba sgi "
    "tga tif tiff vda vst webp wmf xbm xpm".split()
)

# Kind of decoder -> extensions.
EXTENSIONS: dict[str, frozenset[str]] = {
    "image": IMAGE_EXTENSIONS,
    "text": frozenset(("txt", "text", "transcript")),
    "json": frozenset(("json", "jsn")),
    "integer": frozenset(("cls", "cls2", "index", "inx", "id")),
    "npy": frozenset(("npy",)),
    "npz": frozenset(("npz",)),
    "msgpack": frozenset(("mp", "msg")),
    "cbor": frozenset(("cbor",)),
    "tenbin": frozenset(("ten", "tb")),
    "pickle": frozenset(("pyd", "pickle", "pkl")),
    "torch": frozenset(("pth",)),
}
_KINDS = {extension: kind for kind, extensions in EXTENSIONS.items() for extension in extensions}

# webdataset's own expression: the dot stops at a newline,
# so "a.jpg\nb" is not a jpg, and neither is ".jpg\n".
_BEFORE_EXTENSION = re.compile(r".*[.]")


@lru_cache(maxsize=4096)
def kind_of(suffix: str) -> str:
    """Return which of webdataset's decoders gets a field of this name.

    One of ``EXTENSIONS``, "gz" (decompressed first, then decoded by the name before ``.gz``: call
    again without it) or "opaque" (left as bytes). Case does not matter, and only the part after the
    last dot counts, as in ``webdataset.autodecode`` with ``decode("pilrgb")``. Versions differ in
    one name: 0.2.86 leaves ``pkl`` as bytes, 1.x unpickles it; here it is always "pickle".

    >>> kind_of("jpg"), kind_of("seg.PNG"), kind_of("json.gz"), kind_of("mp4")
    ('image', 'image', 'gz', 'opaque')
    """
    name = "." + suffix.lower()
    if name.endswith(".gz"):
        return "gz"
    extension = _BEFORE_EXTENSION.sub("", name)
    return _KINDS.get(extension, "opaque")
