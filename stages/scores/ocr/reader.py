"""EasyOCR's detector and one of its recognisers, together: what is written in a picture."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..model import Model
from .boxes import Boxes, boxes_of
from .detector import TextDetector, detect
from .weights import DETECTOR, identity_of, state_of

if TYPE_CHECKING:
    from .canvas import Canvas, Pixels

_HEIGHT = 64  # pixels of a line of text
_MOST_PIXELS = 1 << 19  # of lines that are read together
_SIZES = {  # input, output and hidden channels of EasyOCR's networks
    "gen1": ("generation1", {"input_channel": 1, "output_channel": 512, "hidden_size": 512}),
    "gen2": ("generation2", {"input_channel": 1, "output_channel": 256, "hidden_size": 256}),
}

Lines = list[tuple[str, float]]  # text and confidence


class _Line(NamedTuple):
    """A line of text cut out of a picture."""

    pixels: Any
    width: int  # that it is padded to
    picture: int


@dataclass(frozen=True, kw_only=True)
class TextReader(TextDetector):
    """Reads text. Items are ``Canvas``, outputs lists of (text, confidence), a line each, as ``readtext`` orders them.

    As ``easyocr.Reader(..., quantize=False).readtext`` with its defaults; of pictures larger than the canvas lines are
    cut out of the canvas. ``network``: the recogniser, by EasyOCR's name; its file lies in ``weights``, too.
    ``language``: which of its characters may occur, by EasyOCR's code; several are separated by ";".
    """

    kind: ClassVar[str] = "easyocr reader"
    packages: ClassVar[tuple[str, ...]] = (*TextDetector.packages, "pillow", "torchvision")

    network: str = "english_g2"
    language: str = "en"

    def load(self, device: str) -> Any:
        """Return the networks. Raises ValueError where weights, network or language are not there."""
        generation, about = self._about()
        return super().load(device), _Recogniser(generation, about, self._ignored(about), self._state(about, device))

    def run(self, loaded: Any, batch: Sequence["Canvas"]) -> list[Any]:
        """Return the lines of each picture."""
        network, recogniser = loaded
        lines: list[_Line] = []
        for number, (item, maps) in enumerate(zip(batch, detect(network, batch), strict=True)):
            height, width = item.pixels.shape[:2]
            boxes = boxes_of(maps._replace(width=width, height=height, ratio=1.0))
            lines += (_Line(*line, number) for line in _cut(item.pixels, boxes))
        found: list[Lines] = [[] for _ in batch]
        for line, text in zip(lines, recogniser.read(lines), strict=True):
            found[line.picture].append(text)
        return found

    def identity(self) -> dict[str, Any]:
        """Return what decides outputs; the folder does not, the weights in it do."""
        weights = identity_of(self.weights, DETECTOR, self._about()[1]["filename"])
        settings = {"canvas": self.canvas, "weights": weights, "network": self.network, "language": self.language}
        return {**Model.identity(self), "settings": settings}

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

    def read(self, lines: Sequence[_Line]) -> Lines:
        """Return text and confidence of each line; those of equal width are read together."""
        widths: dict[int, list[int]] = {}
        for number, line in enumerate(lines):
            widths.setdefault(line.width, []).append(number)
        found: dict[int, tuple[str, float]] = {}
        for width, numbers in widths.items():
            most = max(1, _MOST_PIXELS // (_HEIGHT * width))
            texts = self._read([lines[number].pixels for number in numbers], width, most)
            found.update(zip(numbers, texts, strict=True))
        return [found[number] for number in range(len(lines))]

    def _read(self, images: list[Any], width: int, most: int) -> Lines:
        from easyocr.recognition import get_text

        pairs = [(None, image) for image in images]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on pinned memory that there is none of, and the like
            read = get_text(
                self.characters, _HEIGHT, width, self.network, self.converter, pairs, self.ignored,
                batch_size=most, workers=0, device=self.device,
            )  # fmt: skip
        return [(str(text), float(confidence)) for _, text, confidence in read]


def _cut(pixels: "Pixels", boxes: Boxes) -> Iterator[tuple[Any, int]]:
    """Yield lines of text in grey, and the width that each is padded to."""
    import cv2
    from easyocr.utils import get_image_list

    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    for left, right, top, bottom in boxes.upright:
        if min(right, width) > max(left, 0) and min(bottom, height) > max(top, 0):
            cut, padded = get_image_list([[left, right, top, bottom]], [], grey, model_height=_HEIGHT)
            yield from ((line, int(padded)) for _, line in cut)
    for quad in boxes.tilted:
        if all(abs(x - u) + abs(y - v) >= 2 for (x, y), (u, v) in zip(quad, [*quad[1:], quad[0]], strict=True)):
            cut, padded = get_image_list([], [quad], grey, model_height=_HEIGHT)
            yield from ((line, int(padded)) for _, line in cut)
