"""The status of a field: its contents as a decoder would find them."""

# Its decoder returns a value.
OK = "ok"
# The level did not look.
UNKNOWN = "?"
# It has no decoder.
OPAQUE = "-"
# Its decoder would raise.
BAD = "bad"
# Images: the same, with the reason.
CUT = "cut"
NOT_IMAGE = "not-image"
MARKUP = "markup"
# The same: it needs a library that is not installed here.
NO_LIBRARY = "no-library"
# The same, whatever it holds: its name ends in .gz, and it cannot be unpacked.
NOT_ZIPPED = "not-zipped"
# An npz that opens, with an array in it that does not load: not all decoders load it.
PARTLY = "partly"
# A finding speaks of it, and it could not be decoded: it is among the samples that may be lost.
SUSPECT = "suspect"
# No bytes.
EMPTY = "empty"
# Captions: white space only; not text.
BLANK = "blank"
NOT_UTF8 = "not-utf8"
# Readable json without a usable string under the wanted names.
NO_CAPTION = "no-caption"
# Pillow refuses it from the header: more than twice its MAX_IMAGE_PIXELS.
BOMB = "bomb"
# Over the reader's pixel limit; decodable or not.
BIG = "big"
BIG_BAD = "big-bad"
# Pickled: never opened by us.
UNSAFE = "unsafe"
# Follows any status: the value does not fit the type of its column, see ``Part.fits``.
MISFIT = "!"
