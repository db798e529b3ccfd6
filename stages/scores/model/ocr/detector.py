"""EasyOCR's detector of text, CRAFT."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..model_score import Model
from .boxes import Maps
from .ocr_weights import DETECTOR, identity_of, state_of

if TYPE_CHECKING:
    from .canvas import Canvas

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
        from .canvas import padded

        return padded(item.pixels.shape[0]) * padded(item.pixels.shape[1])

    def largest(self) -> "Canvas":
        """Return a square of the canvas's size."""
        import numpy as np

        from .canvas import Canvas

        return Canvas(np.zeros((self.canvas, self.canvas, 3), np.uint8), self.canvas, self.canvas)

    def identity(self) -> dict[str, Any]:
        """Return what decides outputs; the folder does not, the weights in it do."""
        found = super().identity()
        return {**found, "settings": {"canvas": self.canvas, "weights": identity_of(self.weights, DETECTOR)}}


def detect(network: Any, batch: Sequence["Canvas"]) -> list[Maps]:
    """Run CRAFT on pictures of any sizes, those of equal padded size together."""
    from .canvas import padded

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
