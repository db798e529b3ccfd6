"""Gather samples into bounded batches, and take batches apart."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass

from wdsflow.memory.sizes import parse_size
from wdsflow.memory.weigh import estimated_size

from .base import OnError, Sample, Stage, StageError
from .fields import fields_text

# Grey, RGB, RGBA.
_CHANNEL_COUNTS = frozenset({1, 3, 4})
# Fields that a message names.
_SHOWN = 12


@dataclass
class _Load:
    """The size of a batch.

    It has the number of samples, their bytes, and the height, width and tokens to which all would
    be padded.
    """

    count: int = 0
    size: int = 0
    height: int = 0
    width: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        return f"{self.height} x {self.width} pixels, {self.tokens} tokens, {self.size} bytes"

    def __add__(self, other: "_Load") -> "_Load":
        return _Load(
            self.count + other.count,
            self.size + other.size,
            max(self.height, other.height),
            max(self.width, other.width),
            max(self.tokens, other.tokens),
        )


@dataclass(frozen=True)
class Batch(Stage, name="batch"):
    """Gather samples into batches: ``{"__key__": [...], "image": [...], ...}``, one list a field.

    A batch is closed before the sample that would break one of the bounds

    * ``size``: samples;
    * ``max_bytes``: bytes of all values ("256MiB");
    * ``max_pixels``: pixels after padding all images to the largest height and the largest width in
      the batch, from the field ``image``;
    * ``max_tokens``: tokens after padding all texts to the longest, from the field ``text``.

    A sample that exceeds a bound by itself is an error ("larger-than-batch"), as is one with other
    fields than its batch ("other-fields"), or whose image or text cannot be measured
    ("not-measured"). ``on_error``: whether errors end the run or are counted. With
    ``partial=False``, the samples of an incomplete last batch are dropped ("partial-batch").

    >>> [batch["__key__"] for batch in Batch(2)([{"__key__": "a"}, {"__key__": "b"}, {"__key__": "c"}])]
    [['a', 'b'], ['c']]
    """

    size: int | None = None
    max_bytes: int | str | None = None
    max_pixels: int | None = None
    max_tokens: int | None = None
    image: str = "image"
    text: str = "text"
    partial: bool = True
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_bytes is not None:
            object.__setattr__(self, "max_bytes", parse_size(self.max_bytes))
        bounds = [self.size, self.max_bytes, self.max_pixels, self.max_tokens]
        if all(bound is None for bound in bounds):
            raise ValueError("Batch needs a bound: size, max_bytes, max_pixels or max_tokens")
        if any(isinstance(bound, int) and bound < 1 for bound in bounds):
            raise ValueError("the bounds of Batch must be at least 1")

    @property
    def reads(self) -> frozenset[str]:
        """The fields that are measured for the bounds."""
        measured = [(self.max_pixels, self.image), (self.max_tokens, self.text)]
        return frozenset(name for bound, name in measured if bound is not None)

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        counts = self.counts
        batch: list[Sample] = []
        load = _Load()
        for sample in samples:
            counts.seen += 1
            try:
                load_of_sample = self._load(sample)
                if self._exceeds_bounds(load_of_sample):
                    text = f"alone it is more than a batch may hold: {load_of_sample} (0 where there is no bound)"
                    raise StageError("larger-than-batch", text)
                if batch and self._exceeds_bounds(load + load_of_sample):
                    yield self._finished_batch(batch)
                    batch = []
                    load = _Load()
                if batch and sample.keys() != batch[0].keys():
                    raise _other_fields_error(sample, batch[0])
            except StageError as error:
                self._count_failure(sample, error, self.on_error)
                continue
            batch.append(sample)
            load += load_of_sample
            if load.count == self.size:
                yield self._finished_batch(batch)
                batch = []
                load = _Load()
        if batch and self.partial:
            yield self._finished_batch(batch)
        elif batch:
            counts.dropped["partial-batch"] += len(batch)

    def _load(self, sample: Sample) -> _Load:
        """Return the size of one sample, in the units that have a bound.

        Raises StageError if it cannot be measured.
        """
        load = _Load(count=1)
        try:
            if self.max_bytes is not None:
                load.size = estimated_size(sample)
            if self.max_pixels is not None:
                load.height, load.width = _height_width(sample[self.image])
            if self.max_tokens is not None:
                load.tokens = _token_count(sample[self.text])
        except KeyError as error:
            raise StageError(
                "not-measured", f"it has no field {error}; its fields: {fields_text(sample)}"
            ) from None
        except TypeError as error:
            raise StageError("not-measured", f"it cannot be measured: {error}") from None
        return load

    def _exceeds_bounds(self, load: _Load) -> bool:
        if self.size is not None and load.count > self.size:
            return True
        if isinstance(self.max_bytes, int) and load.size > self.max_bytes:
            return True
        pixels = load.count * load.height * load.width
        if self.max_pixels is not None and pixels > self.max_pixels:
            return True
        tokens = load.count * load.tokens
        return self.max_tokens is not None and tokens > self.max_tokens

    def _finished_batch(self, batch: list[Sample]) -> Sample:
        """Return samples as a batch, and count them."""
        self.counts.kept += len(batch)
        return {name: [sample[name] for sample in batch] for name in batch[0]}


def _other_fields_error(sample: Sample, first: Sample) -> StageError:
    text = f"its fields are {fields_text(sample)}; those of {first.get('__key__')!r} in its batch are {fields_text(first)}"
    return StageError(
        "other-fields", f"{text}; Rename(..., keep=False) or HasFields before makes them the same"
    )


def _height_width(value: object) -> tuple[int, int]:
    """Return an image's height and width: a Pillow image, or an array or tensor as HW, CHW or HWC.

    Raises TypeError if it is none of these.
    """
    size = getattr(value, "size", None)
    shape = getattr(value, "shape", None)
    if shape is None and isinstance(size, tuple) and len(size) == 2:
        width, height = size
        return int(height), int(width)
    if shape is not None and len(shape) in {2, 3}:
        channels_first = len(shape) == 3 and (
            shape[0] in _CHANNEL_COUNTS or shape[2] not in _CHANNEL_COUNTS
        )
        height, width = shape[1:] if channels_first else shape[:2]
        return int(height), int(width)
    raise TypeError(f"{type(value).__name__} has no height and width; put Decode before")


def _token_count(value: object) -> int:
    """Return the number of tokens of a text: the length of a list, or of a tensor's last dimension.

    Raises TypeError for text that is not tokenized yet.
    """
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) > 0:
        return int(shape[-1])
    if isinstance(value, (list, tuple)):
        return len(value)
    raise TypeError(f"{type(value).__name__} is not a list of tokens; put Tokenize before")


@dataclass(frozen=True)
class Unbatch(Stage, name="unbatch"):
    """Split batches of ``Batch`` into samples again; fields may have become tensors.

    A batch whose fields differ in length, or have no length, is an error ("ragged-batch"); it
    counts as many samples as it has keys.

    >>> list(Unbatch()([{"__key__": ["a", "b"], "txt": ["a cat", "a dog"]}]))
    [{'__key__': 'a', 'txt': 'a cat'}, {'__key__': 'b', 'txt': 'a dog'}]
    """

    on_error: OnError = "raise"

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        counts = self.counts
        for batch in samples:
            lengths = {name: _length(value) for name, value in batch.items()}
            longest = max([length or 0 for length in lengths.values()], default=0)
            count = lengths.get("__key__") or longest
            counts.seen += count
            others = {name: length for name, length in lengths.items() if length != count}
            if others:
                counts.failed["ragged-batch"] += count
                if self.on_error == "raise":
                    keys = str(batch.get("__key__"))[:120]
                    detail = f"batch {keys}: of {count} samples, {_lengths_text(others)}"
                    raise StageError("ragged-batch", f"{self.name}: {detail}")
                continue
            for index in range(count):
                counts.kept += 1
                yield {name: value[index] for name, value in batch.items()}


def _lengths_text(lengths: Mapping[str, int | None]) -> str:
    """Return the lengths of fields as text: "'txt' has 3, 'cls' has no length"."""
    texts: list[str] = []
    for name, length in list(lengths.items())[:_SHOWN]:
        text = "has no length" if length is None else f"has {length}"
        texts.append(f"{str(name)[:60]!r} {text}")
    return ", ".join(texts)


def _length(value: object) -> int | None:
    """Return how many entries a field of a batch has; None if it has no length."""
    if isinstance(value, (str, bytes, bytearray, dict, set)) or not isinstance(value, Sized):
        return None
    try:
        return len(value)
    except TypeError:
        # Not a container, or a tensor without dimensions.
        return None
