"""One sample as the input of scores.

Everything is read, parsed and decoded on first use, and only once.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

from wdsflow.images.header import ImageHeader
from wdsflow.shards.shard_names import IMAGES

from ..fields import names_text
from ..imaging.scored_size import SCORED
from .base import ScoreError
from .picture import Picture
from .picture_decoding import decode_picture, shrink_image
from .sample_fields import (
    CAPTIONS,
    CHUNK,
    VIDEOS,
    FieldNames,
    Fields,
    Held,
    ImageField,
    caption_texts,
    chosen_fields,
    image_header,
    json_tree,
    parse_captions,
    parse_images,
)
from .video_facts import VideoFacts, video_facts
from .video_frames import Frames, Prepares, Sampling, video_frames

if TYPE_CHECKING:
    from ..imaging.shrink import Shrinker, ShrunkImage

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """Options for the views of all samples of a run.

    ``images`` and ``captions``: see ``parse_images`` and ``parse_captions``. ``budget``: bytes for
    an encoded image, and for decoding a sample's images; a larger image is an error
    ("over-budget").
    """

    images: str = IMAGES
    captions: str = CAPTIONS
    budget: int = 1 << 30
    names: FieldNames = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be parsed, before the first sample."""
        object.__setattr__(self, "names", parse_images(self.images))
        parse_captions(self.captions)

    def identity(self) -> dict[str, object]:
        """Return the options that affect values.

        The budget does not: it only affects whether there is a value.
        """
        return {"images": self.images, "captions": self.captions, "side": SCORED.most}


class View:
    """A sample: ``key``, ``url``, and the data that scores read. Methods raise ScoreError.

    Slugs: "no-image", "no-video", "no-caption" (no such field), "not-an-image", "truncated",
    "undecodable", "unknown-size", "over-budget", "not-utf8", "large-text", "bad-json",
    "large-json", "not-text", "unread" (the shard ends before it). Those of videos: see
    ``video_frames``. ``bytes_read`` counts the bytes read so far.
    """

    __slots__ = ("_cache", "_held", "bytes_read", "fields", "key", "options", "url")

    def __init__(
        self,
        fields: Fields | dict[str, bytes],
        options: ViewOptions | None = None,
        *,
        key: str = "",
        url: str = "",
    ) -> None:
        if isinstance(fields, dict) and not isinstance(fields, Held):
            fields = Held(fields)
        self.fields: Fields = fields
        self.options = options or _default_options()
        self.key = key
        self.url = url
        self.bytes_read = 0
        # Bytes of the pictures that are kept, which count towards the budget.
        self._held = 0
        self._cache: dict[Hashable, Any] = {}

    def image_names(self, image: str = "") -> tuple[str, ...]:
        """Return the fields that are the sample's images.

        ``image`` names other fields than the options do.
        """
        names: tuple[str, ...] | None = self._cache.get(("names", image))
        if names is not None:
            return names
        pattern = parse_images(image) if image else self.options.names
        names = chosen_fields(pattern, self.fields)
        if not names:
            requested = image or self.options.images
            raise ScoreError(
                "no-image", f"no field {requested!r}; it has {names_text(self.fields)}"
            )
        self._cache["names", image] = names
        return names

    def headers(self, image: str = "") -> list[ImageHeader]:
        """Return the images' headers, from their first few KiB, without decoding."""
        headers: list[ImageHeader] | None = self._cache.get(("headers", image))
        if headers is None:
            headers = [self.header(name) for name in self.image_names(image)]
            self._cache["headers", image] = headers
        return headers

    def pictures(self, image: str = "") -> list[Picture]:
        """Return the images, decoded at a bounded size."""
        return [self._once("picture", name, View._picture) for name in self.image_names(image)]

    def release_pictures(self) -> None:
        """Free the decoded images. ``pictures`` would decode them again.

        Memory that is freed before the next image is decoded is used for that image. Where the
        images of many samples are held, each gets new pages from the system, which takes half as
        long as decoding 20 KB.
        """
        pictures = [key for key, value in self._cache.items() if isinstance(value, Picture)]
        for key in pictures:
            del self._cache[key]
        self._held = 0

    def image_parts(self, image: str = "") -> list[ImageField]:
        """Return the images without reading them."""
        return [ImageField(self, name) for name in self.image_names(image)]

    def shrunk(self, name: str, shrinker: "Shrinker") -> "ShrunkImage | None":
        """Return an image field made smaller, None if it is small enough.

        The picture that scores have decoded is used if possible.
        """
        header = self.header(name)
        if header.width and shrinker.rule.is_small_enough(header.width, header.height):
            return None
        # Not decoded for this: it may be a ScoreError, or missing.
        picture = self._cache.get(("picture", name))
        decoded = picture if isinstance(picture, Picture) else None
        return shrink_image(self.read(name), header, shrinker, self.options.budget, decoded)

    def prepared(self, name: str, prepare: Callable[[bytes, int], T]) -> T:
        """Return ``prepare(data, budget)`` of an image field.

        Equal calls share the result while it is referenced.
        """

        def prepared(view: View, name: str) -> T:
            return prepare(view.read(name), view.options.budget - view._held)

        return self._shared(prepare, name, prepared)

    def video_names(self, video: str = "") -> tuple[str, ...]:
        """Return the fields that are the sample's videos: mp4, webm, mkv, avi or mov.

        ``video`` names other fields.
        """
        requested = video or VIDEOS
        names = chosen_fields(parse_images(requested), self.fields)
        if not names:
            raise ScoreError(
                "no-video", f"no field {requested!r}; it has {names_text(self.fields)}"
            )
        return names

    def videos(self, video: str = "") -> list[VideoFacts]:
        """Return the facts in the videos' headers, without decoding."""
        return [self._once("video", name, video_facts) for name in self.video_names(video)]

    def frames(self, name: str, sampling: Sampling, prepare: Prepares | None = None) -> Frames:
        """Return frames of a video field.

        They are RGB of full size, or the result of ``prepare.of`` for each.

        Equal calls share them while they are referenced. See ``video_frames``.
        """
        prepare_frame = None if prepare is None else prepare.of

        def sampled(view: View, name: str) -> Frames:
            budget = view.options.budget - view._held
            return video_frames(view, name, sampling, budget, prepare_frame)

        frames = self._shared((sampling, prepare), name, sampled)
        # Kept when the frames are no longer referenced.
        self._cache["count", sampling, name] = len(frames)
        return frames

    def frame_count(self, name: str, sampling: Sampling) -> int:
        """Return how many frames ``frames`` returns."""
        count: int | None = self._cache.get(("count", sampling, name))
        return len(self.frames(name, sampling)) if count is None else count

    def captions(self, caption: str = "") -> list[str]:
        """Return the captions; ``caption`` names other fields than the options do. Never empty."""
        texts: list[str] | None = self._cache.get(("captions", caption))
        if texts is not None:
            return texts
        requested = caption or self.options.captions
        texts = caption_texts(self, parse_captions(requested))
        if not texts:
            raise ScoreError(
                "no-caption", f"none in {requested!r}; it has {names_text(self.fields)}"
            )
        self._cache["captions", caption] = texts
        return texts

    def json(self, name: str = "json") -> object:
        """Return a field's json, parsed. Raises ScoreError "no-json" if there is no such field."""
        tree = self._cache.get(("json", name))
        if tree is not None:
            return tree
        if name not in self.fields:
            raise ScoreError("no-json", f"no field {name!r}; it has {names_text(self.fields)}")
        tree = json_tree(self, name)
        self._cache["json", name] = tree
        return tree

    def digests(self, image: str = "") -> list[bytes]:
        """Return xxh3_128 of each image's bytes, 16 bytes each.

        The images are read in parts and not kept.
        """
        return [self._once("digest", name, View._digest) for name in self.image_names(image)]

    def sizes(self, image: str = "") -> list[int]:
        """Return the sizes of the encoded images in bytes."""
        return [self.fields.size(name) for name in self.image_names(image)]

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return a part of a field, all of it by default.

        Raises ScoreError "over-budget" or "unread".
        """
        whole = self.fields.size(name)
        if size is None and whole > self.options.budget:
            raise ScoreError(
                "over-budget", f"it has {whole:,} bytes; the budget is {self.options.budget:,}"
            )
        rest = whole - start
        size = rest if size is None else min(size, rest)
        data = self.fields.read(name, start, size)
        self.bytes_read += len(data)
        if len(data) < size:
            raise ScoreError("unread", f"{len(data):,} of {size:,} bytes could be read")
        return data

    def header(self, name: str) -> ImageHeader:
        """Return the header of an image field."""
        return self._once("header", name, image_header)

    def _picture(self, name: str) -> Picture:
        picture = decode_picture(self.read(name), self.options.budget - self._held)
        width, height = picture.size
        # Pillow takes four bytes for a pixel of RGB.
        self._held += 4 * width * height
        return picture

    def _digest(self, name: str) -> bytes:
        import xxhash

        digest = xxhash.xxh3_128()
        for start in range(0, self.fields.size(name), CHUNK):
            digest.update(self.read(name, start, CHUNK))
        return digest.digest()

    def _shared(self, kind: Hashable, name: str, compute: Callable[["View", str], T]) -> T:
        """Return the result of ``compute``, cached only while it is referenced elsewhere.

        A model's input may be large.
        """
        reference = self._cache.get((kind, name))
        # Otherwise nothing, or an error, which ``_once`` raises again.
        if isinstance(reference, ref):
            value: T | None = reference()
            if value is not None:
                return value
            del self._cache[kind, name]
        value = self._once(kind, name, compute)
        self._cache[kind, name] = ref(value)
        return value

    def _once(self, kind: Hashable, name: str, compute: Callable[["View", str], T]) -> T:
        """Return the result of ``compute`` for a field. Both it and a ScoreError are cached."""
        value: T | ScoreError | None = self._cache.get((kind, name))
        if value is None:
            try:
                value = compute(self, name)
            except ScoreError as error:
                value = ScoreError(error.slug, f"field {name!r}: {error.detail}")
            self._cache[kind, name] = value
        if isinstance(value, ScoreError):
            # A copy: the traceback of an exception that is
            # raised again grows, and keeps its frames alive.
            raise ScoreError(value.slug, value.detail)
        return value


@cache
def _default_options() -> ViewOptions:
    return ViewOptions()
