"""Where captions are: text members, names in JSON and columns of a table, in the order of trial."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wdsflow.shards.caption_field import parse_caption_field
from wdsflow.shards.shard_names import alternatives

from .base import Dropped, StageError
from .caption_text import JsonText
from .select import given_weights, weighted_order

# Bytes of a text member: longer texts are not captions.
LARGEST = 1 << 20
# Before the column of a table that has captions.
JOIN = "join:"


@dataclass(frozen=True)
class Captions:
    """The caption of a sample from its raw members. Picklable.

    ``sources``: names of text members, "join:COLUMN" for those of a table, and stages that read
    JSON. ``keep_empty``: whether an empty text member counts as a caption, as for OpenCLIP 3.
    ``probs``: weights by which the order of trial is drawn for each sample and epoch; without them
    it is that of the sources.
    """

    sources: tuple[str | JsonText, ...]
    keep_empty: bool = False
    probs: tuple[float, ...] | None = None
    seed: int = 0
    epoch: int = 0

    @property
    def members(self) -> tuple[str, ...]:
        """The members that are read, in the order in which they are tried."""
        names = [source if isinstance(source, str) else source.source for source in self.sources]
        return tuple(dict.fromkeys(names))

    @property
    def joined_columns(self) -> tuple[str, ...]:
        """The columns of a table that are sources."""
        names = [source for source in self.sources if isinstance(source, str)]
        return tuple(name.removeprefix(JOIN) for name in names if name.startswith(JOIN))

    def __str__(self) -> str:
        text = "|".join(map(_name_of, self.sources))
        return text if self.probs is None else f"{text} by {','.join(map(str, self.probs))}"

    def weighted(self, probs: Sequence[float] | None) -> "Captions":
        """Return a copy that tries sources in an order drawn by weights.

        Without weights it is unchanged. Raises ValueError for unusable weights, or for a source
        that is named twice.
        """
        if probs is None:
            return self
        count = len(self.sources)
        weights = given_weights(probs, count, "caption_probs", "places of captions")
        names = [_name_of(source) for source in self.sources]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} is named twice: give each place of captions one weight")
        return replace(self, probs=weights)

    def with_column(self, column: str, other: str) -> "Captions":
        """Return a copy with another column of a table in place of one."""
        sources = (
            f"{JOIN}{other}" if source == f"{JOIN}{column}" else source for source in self.sources
        )
        return replace(self, sources=tuple(sources))

    def in_lower_case(self) -> "Captions":
        """Return a copy with columns of a table in lower case, as a scan names all fields."""
        sources = (source.lower() if isinstance(source, str) else source for source in self.sources)
        return replace(self, sources=tuple(sources))

    def at_epoch(self, epoch: int, seed: int) -> "Captions":
        """Return a copy whose random choices are drawn for this epoch."""
        captions = self._with_sources_at(epoch)
        if self.probs is None:
            return captions
        return replace(captions, seed=seed, epoch=epoch)

    def _with_sources_at(self, epoch: int) -> "Captions":
        """Return a copy whose sources draw for this epoch; the same if none draws."""
        sources: list[str | JsonText] = []
        draws = False
        for source in self.sources:
            if isinstance(source, str):
                sources.append(source)
            else:
                sources.append(replace(source, epoch=epoch))
                draws = draws or source.json_text_key_probs is not None
        return replace(self, sources=tuple(sources)) if draws else self

    def read(self, key: str, members: Mapping[str, bytes | int]) -> str:
        """Return the caption.

        Raises Dropped or StageError with the reason of the last source that had a member.

        ``members``: raw contents by field, or the size in bytes of a member that is too large to be
        read.
        """
        failure: Dropped | StageError = Dropped("no-caption")
        for source in self._order(key):
            name = source if isinstance(source, str) else source.source
            data = members.get(name)
            if data is None:
                continue
            try:
                if isinstance(data, int):
                    raise StageError("large-caption", f"its {name} has {data:,} bytes")
                if isinstance(source, str):
                    return self._text(name, data)
                return source.caption(key, data)
            except (Dropped, StageError) as error:
                failure = error
        raise failure

    def _order(self, key: str) -> Iterable[str | JsonText]:
        """Return the sources in the order in which they are tried for a sample."""
        if self.probs is None:
            return self.sources
        by_name = {_name_of(source): source for source in self.sources}
        names = weighted_order(list(by_name), self.probs, self.seed, key, self.epoch)
        return [by_name[name] for name in names]

    def _text(self, name: str, data: bytes) -> str:
        if len(data) > LARGEST:
            raise StageError(
                "large-caption", f"its {name} has {len(data):,} bytes; at most {LARGEST:,} are read"
            )
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise StageError("not-text", f"its {name} is not UTF-8: {error}") from error
        if not self.keep_empty and not text.strip():
            raise Dropped("empty-caption")
        return text


def _name_of(source: str | JsonText) -> str:
    if isinstance(source, str):
        return source
    return f"{source.source}:{';'.join(source.json_text_key)}"


def parse_captions(text: str) -> Captions:
    """Parse ``txt|json:description;alt|join:COLUMN``. Raises ValueError if it is malformed.

    >>> parse_captions("txt|json:meta.caption;alt").members
    ('txt', 'json')
    """
    sources: list[str | JsonText] = []
    for part in text.split("|"):
        if part.startswith(JOIN) and part != JOIN:
            sources.append(part)
        elif ":" in part:
            member, names = parse_caption_field(part)
            sources.append(JsonText(names, source=member))
        else:
            sources.extend(name.lower() for name in alternatives(part))
    return Captions(tuple(sources))


def captions_for(given: str | None, args: object, *, keep_empty: bool) -> Captions:
    """Return the caption sources: ``given`` if set, otherwise from OpenCLIP's arguments.

    Version 4 of OpenCLIP has arguments for captions in json.
    """
    if given:
        return parse_captions(given)
    key = getattr(args, "json_text_key", None)
    if key:
        weights = getattr(args, "json_text_key_probs", None) or None
        seed = int(getattr(args, "seed", 0))
        stage = JsonText(key, None if weights is None else tuple(weights), seed=seed)
        return Captions((stage,))
    names = alternatives(getattr(args, "text_key", None) or "txt")
    return Captions(tuple(name.lower() for name in names), keep_empty=keep_empty)
