"""Stages that clean captions, and take them from a json member."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from wdsflow.shards.byte_order_marks import encoding_of
from wdsflow.shards.caption_field import LARGEST, caption_in, look_up, parse_json
from wdsflow.shards.shard_names import alternatives

from .base import Dropped, Sample, SampleStage, StageError
from .fields import Output, fields_text, in_output_type, note_or_raise, present_names
from .select import given_weights, weighted_order

if TYPE_CHECKING:
    import ftfy

# Byte order marks, zero-width spaces and word joiners.
# Joiners that emoji and Indic scripts need are kept.
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u2060"))


@dataclass(frozen=True)
class CleanText(SampleStage, name="clean_text", read_by="field"):
    r"""Clean a caption in place.

    It works before and after ``wds.decode``: bytes become UTF-8 bytes, a ``str`` becomes a ``str``.
    ``output`` "str" or "bytes" fixes the type, for instance "str" in a pipeline that never decodes
    texts.

    Bytes are decoded as UTF-16 or UTF-32 if they begin with its byte order mark, otherwise as
    UTF-8. Then ftfy fixes mojibake, HTML entities, terminal escapes and control characters
    (including NUL), and normalizes to NFC. Byte order marks and zero-width spaces are removed, and
    runs of white space, including line ends, become one space. Quotes, ligatures and full-width
    letters are unchanged. A text that was changed is noted as "changed".

    ``fallback`` is the encoding of bytes that are not UTF-8, for instance "cp1252" (noted as
    "not-utf8"); without it they are an error. ``on_empty``, if nothing visible remains: "drop"
    ("empty"), "raise" or "keep" (noted). ``on_missing``, if the field is missing: "raise", "drop"
    or "keep" ("no-txt"). A text of more than ``max_bytes`` (characters, if it is already decoded)
    is an error ("large-text"), as is a value that is not text ("not-text"). ``field`` may name
    alternatives; all that exist are cleaned.

    >>> stage = CleanText(output="str")
    >>> list(stage([{"__key__": "a", "txt": b"\xef\xbb\xbfcaf\xc3\x83\xc2\xa9 \n au lait\0"}]))[0]["txt"]
    'café au lait'
    """

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
                raise ValueError(
                    f"fallback={self.fallback!r} is not an encoding; 'cp1252' is the usual one"
                ) from None

    def apply(self, sample: Sample) -> Sample:
        notes: list[str] = []
        names = present_names(sample, self.field.split(";"))
        if not names:
            text = f"it has no field {self.field!r}; its fields: {fields_text(sample)}"
            notes.append(note_or_raise(f"no-{self.field}", self.on_missing, text))
        for name in names:
            text, guessed = self._decoded(name, sample[name])
            clean = clean_text(text)
            if guessed:
                notes.append("not-utf8")
            if clean != text:
                notes.append("changed")
            if not has_visible_character(clean):
                notes.append(
                    note_or_raise("empty", self.on_empty, f"nothing visible is left of {name!r}")
                )
            sample[name] = in_output_type(clean, sample[name], self.output)
        self.counts.noted.update(notes)
        return sample

    def _decoded(self, name: str, value: object) -> tuple[str, bool]:
        if not isinstance(value, (str, bytes, bytearray, memoryview)):
            hint = (
                "; JsonText takes captions out of json" if isinstance(value, (dict, list)) else ""
            )
            raise StageError("not-text", f"{name!r} is not text but {type(value).__name__}{hint}")
        if len(value) > self.max_bytes:
            raise StageError(
                "large-text",
                f"{name!r} has {len(value)} bytes, more than max_bytes={self.max_bytes}",
            )
        if isinstance(value, str):
            return value, False
        data = bytes(value)
        encoding = encoding_of(data)
        try:
            return data.decode(encoding), False
        except UnicodeDecodeError as error:
            if self.fallback is None:
                hint = (
                    "; fallback='cp1252' reads it as Western European"
                    if encoding == "utf-8"
                    else ""
                )
                raise StageError("not-utf8", f"{name!r} cannot be decoded: {error}{hint}") from None
            return data.decode(self.fallback, errors="replace"), True


def clean_text(text: str) -> str:
    r"""Return a text after cleaning by ``CleanText``.

    >>> clean_text("\ufeffa\t cat&amp;dog\x00")
    'a cat&dog'
    """
    # Otherwise nothing to fix.
    if not (text.isascii() and text.isprintable() and "&" not in text):
        import ftfy

        text = ftfy.fix_text(text, _config()).translate(_INVISIBLE)
    return " ".join(text.split())


def has_visible_character(text: str) -> bool:
    """Return whether a text has a visible character.

    White space, controls and zero-width characters are not visible.
    """
    return any(char.isprintable() and not char.isspace() for char in text)


@cache
def _config() -> "ftfy.TextFixerConfig":
    import ftfy

    return ftfy.TextFixerConfig(
        uncurl_quotes=False, fix_latin_ligatures=False, fix_character_width=False, explain=False
    )


@dataclass(frozen=True)
class JsonText(SampleStage, name="json_text", read_by="source", written_by="target"):
    """Write a caption in a json member as a text member.

    It works before and after ``wds.decode``: the caption becomes UTF-8 bytes if the json is raw
    bytes, a ``str`` if the json is decoded or a ``str``. ``output`` "str" or "bytes" fixes the
    type, for instance "str" in a pipeline that never decodes texts.

    ``json_text_key`` and ``json_text_key_probs`` have the same meaning as in OpenCLIP 4. The names
    in ``json_text_key`` ("description;alt") are tried in order; the first with a caption is used.
    With weights, the order is random for each sample: names of a positive weight first, drawn
    without replacement in proportion to their weights, then the others in the given order; names
    without a weight have weight 0. Unlike in OpenCLIP, the order depends only on the sample's key,
    ``seed`` and ``epoch``. A name may be a path with dots ("meta.caption"); a name in the json that
    is equal to all of it takes precedence.

    The json may be raw (bytes or ``str``, at most 16 MiB) or decoded. Values

    * a string that is not only white space is the caption, stripped;
    * of a list, the first such string is the caption; nested lists are not searched;
    * null, "", an empty list, a missing name: no caption; the next name is tried;
    * a number, true, false, an object: no caption either. An object is never converted to text,
      because its names would then be the caption of every image.

    ``on_missing``, for a sample without caption: "drop" counts it as "no-json" (no such member),
    "not-text" (only numbers or objects) or "no-caption"; "raise" makes it an error. Json that
    cannot be parsed is an error ("bad-json", "large-json"). ``on_target``, if ``target`` exists
    already: "replace" it (noted), "keep" it (noted; the json is not read), "drop" the sample or
    "raise".

    >>> stage = JsonText("caption;alt")
    >>> raw, decoded = b'{"caption": null, "alt": "a cat"}', {"caption": "a dog"}
    >>> [sample["txt"] for sample in stage([{"__key__": "a", "json": raw}, {"__key__": "b", "json": decoded}])]
    [b'a cat', 'a dog']
    """

    json_text_key: str | tuple[str, ...]
    json_text_key_probs: tuple[float, ...] | None = None
    source: str = "json"
    target: str = "txt"
    seed: int = 0
    epoch: int = 0
    on_missing: Literal["raise", "drop"] = "drop"
    on_target: Literal["raise", "drop", "replace", "keep"] = "replace"
    output: Output = "same"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = _names(self.json_text_key)
        object.__setattr__(self, "json_text_key", names)
        alternatives((self.source, self.target))
        if self.json_text_key_probs is not None:
            weights = given_weights(
                self.json_text_key_probs,
                len(names),
                "json_text_key_probs",
                "names in json_text_key",
            )
            object.__setattr__(self, "json_text_key_probs", weights)

    def apply(self, sample: Sample) -> Sample:
        note = ""
        if self.target in sample and self.target != self.source:
            text = f"it has a field {self.target!r} already (set on_target to 'replace' or 'keep')"
            note = note_or_raise(f"has-{self.target}", self.on_target, text)
            if self.on_target == "keep":
                self.counts.noted[note] += 1
                return sample
        if self.source not in sample:
            raise self._missing(
                "no-json", f"it has no field {self.source!r}; its fields: {fields_text(sample)}"
            )
        value = sample[self.source]
        sample[self.target] = in_output_type(
            self.caption(str(sample.get("__key__", "")), value), value, self.output
        )
        if note:
            self.counts.noted[note] += 1
        return sample

    def caption(self, key: str, json: object) -> str:
        """Return the caption from a sample's json, raw or decoded.

        Raises Dropped and StageError as the stage does.
        """
        tree = _decoded(json)
        kinds = set[str]()
        for name in self._order(key):
            value = look_up(tree, name)
            caption = caption_in(value)
            if caption is not None:
                return caption
            if isinstance(value, (bool, int, float, dict)):
                kinds.add(type(value).__name__)
        if kinds:
            text = f"what it holds under {self._shown} is not text but {', '.join(sorted(kinds))}"
            raise self._missing("not-text", text)
        keys = (
            ", ".join(sorted(repr(str(key)[:60]) for key in list(tree)[:12]))
            if isinstance(tree, dict)
            else "none"
        )
        raise self._missing(
            "no-caption", f"its json holds no text under {self._shown}; names there: {keys}"
        )

    def _order(self, key: str) -> Iterable[str]:
        names, weights = self.json_text_key, self.json_text_key_probs
        if weights is None:
            return names
        return weighted_order(names, weights, self.seed, key, self.epoch)

    @property
    def _shown(self) -> str:
        return repr(";".join(self.json_text_key))

    def _missing(self, slug: str, text: str) -> Exception:
        return Dropped(slug) if self.on_missing == "drop" else StageError(slug, text)


def _names(key: str | Iterable[str]) -> tuple[str, ...]:
    parts = key.split(";") if isinstance(key, str) else key
    names = tuple(dict.fromkeys(name for part in parts if (name := part.strip())))
    if not names:
        raise ValueError(
            "json_text_key names nothing; give the json's name for captions, such as 'caption;alt'"
        )
    return names


def _decoded(value: object) -> object:
    if not isinstance(value, (bytes, bytearray, memoryview, str)):
        return value
    if len(value) > LARGEST:
        raise StageError(
            "large-json", f"its json has {len(value)} bytes; at most {LARGEST} are read"
        )
    try:
        return parse_json(value)
    except ValueError as error:
        raise StageError("bad-json", f"its json cannot be parsed: {error}") from None
