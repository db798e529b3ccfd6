"""Clean captions."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from wdsflow.shards.shard_names import alternatives

from .base import Sample, SampleStage, StageError
from .fields import Output, listed, present, settled, written

if TYPE_CHECKING:
    import ftfy

_BOMS = {  # UTF-32 before UTF-16: its little-endian mark begins with the other's
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
# Invisible and part of no word: byte order marks, zero-width spaces and word joiners. Joiners that emoji and
# Indic scripts are made of stay.
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u2060"))


@dataclass(frozen=True)
class CleanText(SampleStage):
    r"""Clean a caption and write it where it was.

    It works before ``wds.decode`` and after it: bytes are written as UTF-8 bytes, a ``str`` as a ``str``. ``output``
    "str" or "bytes" settles it, for instance "str" in a pipeline that never decodes texts.

    In this order: bytes are decoded, as UTF-16 or UTF-32 where they begin with its byte order mark and as UTF-8
    otherwise; mojibake, html entities, terminal escapes and control characters (NUL among them) are fixed by ftfy,
    which also brings the text to Unicode's form NFC; byte order marks and zero-width spaces go; runs of white space,
    line ends included, become one space. Quotes, ligatures and full-width letters stay as they are. A text that this
    changed is noted as "changed".

    ``fallback`` is the encoding of bytes that are not UTF-8, for instance "cp1252" (noted as "not-utf8"); without it
    they are an error. ``on_empty``: nothing visible is left: "drop" ("empty"), "raise" or "keep" (noted).
    ``on_missing``: the field is not there: "raise", "drop" or "keep" ("no-txt"). A text of more than ``max_bytes``
    (characters, if it is already decoded) is an error ("large-text"), as is a value that is not text ("not-text").
    ``field`` may name alternatives; all that are there are cleaned.

    >>> stage = CleanText(output="str")
    >>> list(stage([{"__key__": "a", "txt": b"\xef\xbb\xbfcaf\xc3\x83\xc2\xa9 \n au lait\0"}]))[0]["txt"]
    'café au lait'
    """

    name: ClassVar[str] = "clean_text"

    field: str = "txt"
    fallback: str | None = None
    max_bytes: int = 1 << 20
    on_empty: Literal["raise", "drop", "keep"] = "drop"
    on_missing: Literal["raise", "drop", "keep"] = "raise"
    output: Output = "same"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "field", ";".join(alternatives(self.field)))
        if self.fallback is not None:
            try:
                b"x".decode(self.fallback)
            except UnicodeDecodeError:
                pass
            except LookupError:
                raise ValueError(f"fallback={self.fallback!r} is not an encoding; 'cp1252' is the usual one") from None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.field})

    def apply(self, sample: Sample) -> Sample:
        notes: list[str] = []
        names = present(sample, self.field.split(";"))
        if not names:
            text = f"it has no field {self.field!r}; its fields: {listed(sample)}"
            notes.append(settled(f"no-{self.field}", self.on_missing, text))
        for name in names:
            text, guessed = self._decoded(name, sample[name])
            clean = clean_text(text)
            if guessed:
                notes.append("not-utf8")
            if clean != text:
                notes.append("changed")
            if not visible(clean):
                notes.append(settled("empty", self.on_empty, f"nothing visible is left of {name!r}"))
            sample[name] = written(clean, sample[name], self.output)
        self.counts.noted.update(notes)
        return sample

    def _decoded(self, name: str, value: object) -> tuple[str, bool]:
        if not isinstance(value, (str, bytes, bytearray, memoryview)):
            hint = "; JsonText takes captions out of json" if isinstance(value, (dict, list)) else ""
            raise StageError("not-text", f"{name!r} is not text but {type(value).__name__}{hint}")
        if len(value) > self.max_bytes:
            raise StageError("large-text", f"{name!r} has {len(value)} bytes, more than max_bytes={self.max_bytes}")
        if isinstance(value, str):
            return value, False
        data = bytes(value)
        encoding = next((encoding for bom, encoding in _BOMS.items() if data.startswith(bom)), "utf-8")
        try:
            return data.decode(encoding), False
        except UnicodeDecodeError as error:
            if self.fallback is None:
                hint = "; fallback='cp1252' reads it as Western European" if encoding == "utf-8" else ""
                raise StageError("not-utf8", f"{name!r} cannot be decoded: {error}{hint}") from None
            return data.decode(self.fallback, errors="replace"), True


def clean_text(text: str) -> str:
    r"""Return a text as ``CleanText`` leaves it.

    >>> clean_text("\ufeffa\t cat&amp;dog\x00")
    'a cat&dog'
    """
    if not (text.isascii() and text.isprintable() and "&" not in text):  # otherwise nothing to fix
        import ftfy

        text = ftfy.fix_text(text, _config()).translate(_INVISIBLE)
    return " ".join(text.split())


def visible(text: str) -> bool:
    """Return whether a text has a visible character, other than white space, controls and zero-width characters."""
    return any(char.isprintable() and not char.isspace() for char in text)


@cache
def _config() -> "ftfy.TextFixerConfig":
    import ftfy

    return ftfy.TextFixerConfig(
        uncurl_quotes=False, fix_latin_ligatures=False, fix_character_width=False, explain=False
    )
