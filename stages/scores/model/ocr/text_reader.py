"""EasyOCR's recognisers: what lines of text say."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from ..model_score import Model
from .detector import TextDetector
from .ocr_weights import identity_of, state_of

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
