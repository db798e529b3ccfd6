"""EasyOCR's recognisers of text as models. Heavy libraries are imported on first use."""

import importlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from ..model import Model
from .easyocr_files import easyocr_config, easyocr_folder, load_weights, weights_identity
from .text_detector import TextDetector
from .text_lines import HEIGHT, TextLine, UncutLines, cut_lines

if TYPE_CHECKING:
    from ..pictures.prepare import Pixels

# Pixels of lines that are read together.
_MOST_PIXELS = 1 << 19
# Module, and input, output and hidden channels of EasyOCR's networks.
_SIZES = {
    "gen1": ("model", {"input_channel": 1, "output_channel": 512, "hidden_size": 512}),
    "gen2": ("vgg_model", {"input_channel": 1, "output_channel": 256, "hidden_size": 256}),
}
# EasyOCR's default for networks without symbols of their own.
_SYMBOLS = "0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ "

# Text and confidence.
Lines = list[tuple[str, float]]


class _Recogniser(TypedDict, total=False):
    """EasyOCR's description of a recogniser."""

    filename: str
    characters: str
    symbols: str


@dataclass(frozen=True, kw_only=True)
class TextReader(
    Model, kind="easyocr reader", packages=(*TextDetector.packages, "pillow", "torchvision")
):
    """Reads text in the lines of a picture.

    Items are the lines of a picture, cut or uncut. Outputs are a (text, confidence) for each line.

    With the lines of ``lines_of``, the same as ``easyocr.Reader(..., quantize=False).readtext``
    with its defaults; of pictures larger than the detector's canvas, lines are cut out of the
    canvas. ``network``: the recogniser, by EasyOCR's name; ``weights``: the folder of its file, ""
    for that of the extra ``ocr``. ``language``: EasyOCR's code of the language whose characters may
    occur; several are separated by ";".
    """

    weights: str = ""
    network: str = "english_g2"
    language: str = "en"

    def load(self, device: str) -> "_LoadedReader":
        """Return the network. Raises ValueError if weights, network or language are missing."""
        generation, recogniser = self._recogniser()
        return _LoadedReader(
            generation, recogniser, self._ignored(recogniser), self.weights, device
        )

    def run(
        self, loaded: "_LoadedReader", batch: Sequence[Sequence[TextLine] | UncutLines]
    ) -> list[Lines]:
        pictures = [cut_lines(*item) if isinstance(item, UncutLines) else item for item in batch]
        texts = iter(loaded.read([line for lines in pictures for line in lines]))
        return [list(islice(texts, len(lines))) for lines in pictures]

    def cost(self, item: Sequence[TextLine] | UncutLines) -> int:
        widths = item.widths if isinstance(item, UncutLines) else [line.width for line in item]
        return max(1, HEIGHT * sum(widths))

    def identity(self) -> dict[str, object]:
        _, recogniser = self._recogniser()
        weights = weights_identity(self.weights, recogniser["filename"])
        settings = {"weights": weights, "network": self.network, "language": self.language}
        return {**super().identity(), "settings": settings}

    def _recogniser(self) -> tuple[str, _Recogniser]:
        """Return the generation of the network, and its description. Raises ValueError."""
        generations = easyocr_config()["recognition_models"]
        for generation, networks in generations.items():
            if self.network in networks:
                return generation, networks[self.network]
        names = ", ".join(sorted(name for networks in generations.values() for name in networks))
        raise ValueError(f"network={self.network!r}: EasyOCR has {names}")

    def _ignored(self, recogniser: _Recogniser) -> str:
        """Return the characters of the network that the languages do not have.

        Raises ValueError for an unknown language.
        """
        allowed = set(recogniser.get("symbols") or _SYMBOLS)
        for part in self.language.split(";"):
            code = part.strip()
            path = easyocr_folder() / "character" / f"{code}_char.txt"
            # Only a code: it is part of a path.
            if not code.replace("_", "").isalpha() or not path.is_file():
                raise ValueError(f"language={code!r}: EasyOCR knows no such code")
            allowed.update("".join(path.read_text(encoding="utf-8-sig").splitlines()))
        return "".join(sorted(set(recogniser["characters"]) - allowed))


class _LoadedReader:
    """A recogniser on a device; ``ignored`` are characters that it never returns."""

    def __init__(
        self, generation: str, recogniser: _Recogniser, ignored: str, weights: str, device: str
    ) -> None:
        from easyocr.utils import CTCLabelConverter

        self.device = device
        self.characters = recogniser["characters"]
        self.ignored = ignored
        self.converter = CTCLabelConverter(self.characters, {}, {})
        module, sizes = _SIZES[generation]
        state = load_weights(weights, recogniser["filename"], device)
        build: Any = importlib.import_module(f"easyocr.model.{module}")
        network = build.Model(num_class=len(self.converter.character), **sizes)
        network.load_state_dict(state)
        self.network = network.to(device).eval().requires_grad_(requires_grad=False)

    def read(self, lines: Sequence[TextLine]) -> Lines:
        """Return text and confidence of each line; lines of equal width are read together."""
        numbers_by_width: dict[int, list[int]] = {}
        for number, line in enumerate(lines):
            numbers_by_width.setdefault(line.width, []).append(number)
        texts: dict[int, tuple[str, float]] = {}
        for width, numbers in numbers_by_width.items():
            texts_of_width = self._read([lines[number].pixels for number in numbers], width)
            texts.update(zip(numbers, texts_of_width, strict=True))
        return [texts[number] for number in range(len(lines))]

    def _read(self, images: "Iterable[Pixels]", width: int) -> Lines:
        from easyocr.recognition import get_text

        pairs = [(None, image) for image in images]
        with warnings.catch_warnings():
            # Such as that pinned memory is missing.
            warnings.simplefilter("ignore")
            texts = get_text(
                self.characters,
                HEIGHT,
                width,
                self.network,
                self.converter,
                pairs,
                self.ignored,
                batch_size=max(1, _MOST_PIXELS // (HEIGHT * width)),
                workers=0,
                device=self.device,
            )
        return [(str(text), float(confidence)) for _, text, confidence in texts]
