"""Base classes of models, and of scores that they compute; the local files of a model."""

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from wdsflow.memory.batching.attempt import OutputsError
from wdsflow.text.words import how_many

from ...base import ClassFacts
from ..base import Kind, Scalar, Score, ScoreError, Value, bare, versions_of
from ..picture_decoding import full_size
from ..sample_view import View

# A ``Model`` is a description of what to load. It is loaded once for each device, in a separate
# process or in the calling one, and then runs bounded batches of items, which may be of several
# samples. A ``ModelScore`` requests items of a sample and computes its value from the outputs.
# Scores with equal models share one, and items of one sample with equal keys run only once. A
# request may depend on another's output: text is detected once, for the score of its area and for
# the score that reads it.

T = TypeVar("T")
# Picklable: an array, bytes, a string, a tuple of these.
Item = Any
# Picklable: usually an array of float32 or a number.
Output = Any
# The result of ``load``: a network, with all that ``run`` needs.
Loaded = Any
# Of one kind of models; picklable.
Facts = Any


class ModelSource(NamedTuple):
    """The origin of a model that is not on this machine, and the settings that name the same model in a folder."""

    # Of the Hugging Face hub, "org/name".
    repository: str = ""
    revision: str = ""
    # "model='FOLDER'".
    folder: str = ""
    # Of a file, if it is not in a repository.
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class Model(ClassFacts):
    """A model that is loaded once for each device. Picklable, hashable; equal if the same would be loaded.

    ``run`` must not depend on globals, only on the fields, because processes may be spawned.
    ``packages``: the distributions whose versions affect outputs.
    """

    # For messages and for ceilings: "open_clip image".
    kind: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    # Whether the largest item is tried if the device is the CPU.
    tries_on_cpu: ClassVar[bool] = True

    @abstractmethod
    def load(self, device: str) -> Loaded:
        """Return the input of ``run``, on a torch device ("cpu", "cuda:1"). Raises the errors of loading."""

    @abstractmethod
    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an output for each item, in order, off the device. Called in inference mode.

        An output must not depend on the other items of the batch, except for rounding.
        """

    def called(self) -> str:
        """Return its name for messages."""
        return self.kind

    def fetched(self) -> ModelSource | None:
        """Return the origin of a model that is not on this machine; None if nothing is downloaded."""
        return None

    def cost(self, item: Item) -> int:
        """Return the size of an item before padding: pixels, tokens. A batch costs its longest times its length."""
        return 1

    def largest(self) -> Item | None:
        """Return an item of the largest possible cost, to try before the first shard; None if none is known."""
        return None

    def facts(self) -> Facts:
        """Return the facts that decoders pass to ``recall``; called in the process that loaded the model."""
        return None

    def recall(self, facts: Facts) -> None:
        """Accept the ``facts`` of another process, so that decoders need not import the model's libraries."""

    def identity(self) -> dict[str, object]:
        """Return all that outputs depend on: kind, settings, hashes of weights, versions of libraries."""
        settings = {item.name: getattr(self, item.name) for item in fields(self)}
        return {"kind": self.kind, "settings": settings, "versions": versions_of(*self.packages)}


class Request(NamedTuple):
    """An item for a model."""

    model: Model
    # Of the item among those of its sample and model: ("jpg", False), a caption.
    key: Hashable
    # Called once for equal keys of a sample, in the decoder; may raise ScoreError.
    make: Callable[..., Item]
    # Request that must run first; ``make`` is called with its output.
    after: "Request | None" = None


@dataclass(frozen=True, kw_only=True)
class ModelScore(Score, tier="model", gpus=0.25):
    """A score computed from a model's outputs."""

    @abstractmethod
    def requests(self, view: View) -> list[Request]:
        """Return the requests for one sample. Raises ScoreError if it cannot be computed."""

    @abstractmethod
    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the value for the outputs, one for each request, in their order. Raises ScoreError."""

    def main_model(self) -> Model:
        """Return the model, if there is only one."""
        raise NotImplementedError

    def models(self) -> tuple[Model, ...]:
        """Return the models of the score; they are loaded and tried before the first sample."""
        return (self.main_model(),)

    def identity(self) -> dict[str, object]:
        return {**super().identity(), "models": [model.identity() for model in self.models()]}

    def score(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self.name} is computed in batches: call requests, run them, then value")


class CaptionModelScore(ModelScore, subject="caption"):
    """A score of captions by one model, with one item for each caption."""

    caption: str

    @abstractmethod
    def item(self, text: str) -> Item:
        """Return the model's input for a caption. Raises ScoreError."""

    def requests(self, view: View) -> list[Request]:
        model = self.main_model()
        return [
            Request(model, text, partial(self.item, text)) for text in view.captions(self.caption)
        ]


_EXPECTED: dict[Kind, str] = {"number": "a number", "boolean": "True or False", "text": "a text"}


def scalar(value: object, kind: Kind, method: str) -> Scalar:
    """Return the value of one item as float or int, bool or str. ``method``, such as "score()", is for messages.

    Scalars of NumPy and PyTorch are accepted, and arrays that hold one value. Raises ScoreError
    "not-finite" for NaN and infinities, OverflowError for a number that no float can hold,
    TypeError for anything else.
    """
    plain = plain_item(value)
    if kind == "text" and isinstance(plain, str):
        return str(plain)
    if kind == "boolean" and isinstance(plain, bool):
        return plain
    if kind == "number" and isinstance(plain, (int, Real)) and not isinstance(plain, bool):
        if not math.isfinite(plain):
            raise ScoreError("not-finite", f"{method} returned {float(plain)}")
        return plain if isinstance(plain, int) else float(plain)
    raise TypeError(
        f"{method} returned {described(value)}: it must return {_EXPECTED[kind]} for each item"
    )


def plain_item(value: object) -> object:
    """Return the contents of an array or scalar of a library: a single value, otherwise lists."""
    return _single(value.tolist()) if hasattr(value, "tolist") else value


def rows_of(value: object) -> list[object] | None:
    """Return the values for several items, of a list or of an array of shape (n,) or (n, 1); None for a single value."""
    if isinstance(value, (list, tuple)):
        return [plain_item(row) for row in value]
    if hasattr(value, "tolist") and getattr(value, "shape", None):
        return [_single(row) for row in value.tolist()]
    return None


def one_each(outputs: object, count: int) -> list[object]:
    """Return the result of ``score()`` for a batch: one plain value for each of ``count`` items.

    An array has shape (n,) or (n, 1); () is accepted for a single item. Raises OutputsError if the
    number of values is wrong.
    """
    items = f"{count:,} item{'s' * (count != 1)}"
    if hasattr(outputs, "tolist"):
        shape: tuple[int, ...] = tuple(getattr(outputs, "shape", None) or ())
        rows = outputs.tolist() if shape[:1] == (count,) else [outputs.tolist()]
        values = [_single(row) for row in rows]
        if len(values) != count or any(isinstance(value, list) for value in values):
            raise OutputsError(
                f"score() returned {described(outputs)} for {items}: the shape must be ({count:,},)"
            )
        return values
    if not isinstance(outputs, Iterable) or isinstance(
        outputs, (str, bytes, Mapping, set, frozenset)
    ):
        raise OutputsError(
            f"score() returned {described(outputs)} for {items}: it must return one value for each"
        )
    values = [plain_item(value) for value in outputs]
    if len(values) != count:
        raise OutputsError(
            f"score() returned {how_many(len(values), 'value')} for {items}: it must return one for each"
        )
    return values


def described(value: object) -> str:
    """Describe an invalid value.

    >>> described(None), described([1, 2]), described({})
    ('None', 'a list of 2 values', 'a dict')
    """
    if value is None or isinstance(value, bool):
        return str(value)
    shape = getattr(value, "shape", None)
    if shape:
        return f"an array of shape {tuple(shape)}"
    kind = type(value).__name__
    if isinstance(value, (list, tuple)):
        return f"a {kind} of {len(value):,} value{'s' * (len(value) != 1)}"
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _single(value: object) -> object:
    """Return the value inside of nested lists of one value."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


@dataclass(frozen=True, kw_only=True)
class BatchScore(ModelScore):
    """A frozen dataclass with ``name``, ``inputs``, ``load`` and ``score``; its fields are its settings.

    ``inputs`` is the type of the items of a batch: "image" an array (height, width, 3) of uint8,
    RGB, as ``Picture`` decodes it, or of full size with decode="exact"; "caption" a string; "pair"
    both, each caption with the sample's first image. If the sample has several images or captions,
    the value is a list.
    """

    inputs: ClassVar[Literal["image", "caption", "pair"]] = "image"

    image: str = ""
    caption: str = ""
    decode: Literal["fast", "exact"] = "fast"

    @abstractmethod
    def load(self, device: str) -> Loaded:
        """Return the model, on a torch device ("cpu", "cuda:1"). Called once for each device."""

    @abstractmethod
    def score(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Scalar]:
        """Return a value for each item, in order; it must not depend on the others. Called in inference mode.

        A list, or an array of shape (n,) or (n, 1). An item whose value is NaN or infinite is the
        error "not-finite".
        """

    def cost(self, item: Item) -> int:
        picture, text = item if self.inputs == "pair" else (item, item)
        pixels = 0 if self.inputs == "caption" else int(picture.shape[0] * picture.shape[1])
        return pixels + (0 if self.inputs == "image" else len(text))

    def main_model(self) -> Model:
        return _Own(score=self)

    def identity(self) -> dict[str, object]:
        return Score.identity(self)

    def requests(self, view: View) -> list[Request]:
        model = self.main_model()
        if self.inputs == "caption":
            return [
                Request(model, text, partial(str, text)) for text in view.captions(self.caption)
            ]
        names = view.image_names(self.image)
        if self.inputs == "image":
            return [
                Request(model, name, partial(self._pixels, view, at))
                for at, name in enumerate(names)
            ]
        return [
            Request(model, text, partial(self._pair, view, text))
            for text in view.captions(self.caption)
        ]

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        return bare([scalar(output, self.kind, "score()") for output in outputs])

    def _pixels(self, view: View, at: int) -> Item:
        if self.decode == "fast":
            return view.pictures(self.image)[at].pixels
        return view.prepared(view.image_names(self.image)[at], full_size)

    def _pair(self, view: View, text: str) -> Item:
        return self._pixels(view, 0), text


@dataclass(frozen=True, kw_only=True)
class _Own(Model, kind="custom score"):
    """A score as its own model."""

    score: BatchScore

    def load(self, device: str) -> Loaded:
        return self.score.load(device)

    def called(self) -> str:
        return self.score.name

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        return one_each(self.score.score(loaded, batch), len(batch))

    def cost(self, item: Item) -> int:
        return self.score.cost(item)

    def identity(self) -> dict[str, object]:
        return self.score.identity()


_CHUNK = 1 << 22
_SETTINGS = (".json", ".model", ".txt", ".jinja")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
# Files of a trainer next to a model.
_STATES = ("optimizer", "scheduler", "scaler", "rng_state", "training_args")


def local_path(name: str) -> Path | None:
    """Return the file or folder that a name points to, None for a name in a hub. Raises ValueError if it is missing.

    Paths begin with "/", "./", "../" or "~", or exist.
    """
    if not name:
        return None
    path = Path(name).expanduser()
    if path.exists():
        return path
    if name.startswith(("/", "./", "../", "~")):
        raise ValueError(f"no such file or folder: {name!r}")
    return None


def source_of(name: str, *, weights: bool = True) -> str:
    """Return a hash of the contents of a local file or folder, otherwise the name itself.

    In a folder, only files that affect outputs count, without its weights if they are not used. A
    file is read again only if its size or time has changed.
    """
    path = local_path(name)
    if path is None:
        return name
    if not path.is_dir():
        return f"xxh3_128 {_digest(path)}"
    import xxhash

    endings = _SETTINGS + _WEIGHTS if weights else _SETTINGS
    files = sorted(
        each for each in path.iterdir() if each.is_file() and each.name.endswith(endings)
    )
    counted = [each for each in files if not each.name.startswith(_STATES)]
    together = xxhash.xxh3_128()
    for each in counted:
        together.update(f"{each.name}\0{_digest(each)}\n".encode())
    return f"{len(counted)} files, xxh3_128 {together.hexdigest()}"


def while_unchanged(read: Callable[[Path], T]) -> Callable[[Path], T]:
    """Return a function that reads a file again only if its size or time has changed."""

    @lru_cache(maxsize=256)
    def cached(path: Path, _state: tuple[int, int]) -> T:
        return read(path)

    def current(path: Path) -> T:
        state = path.stat()
        return cached(path, (state.st_mtime_ns, state.st_size))

    return current


@while_unchanged
def _digest(path: Path) -> str:
    import xxhash

    digest = xxhash.xxh3_128()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class ModelFact(Generic[T]):
    """Decorates a function that finds a fact about a model: a fact that another process has shared takes precedence.

    Decoders with a shared fact need not import the libraries that find it.
    """

    def __init__(self, find: Callable[..., T]) -> None:
        self._find, self._shared = find, dict[tuple[str, ...], T]()

    def __call__(self, *model: str) -> T:
        """Return the fact. Raises the errors of the function."""
        return self._shared[model] if model in self._shared else self._find(*model)

    def share(self, fact: T, *model: str) -> None:
        """Keep a fact that another process found."""
        self._shared[model] = fact

    def is_shared(self, *model: str) -> bool:
        """Return whether another process found the fact."""
        return model in self._shared
