"""EasyOCR's detector of text, CRAFT, as a model. Heavy libraries are imported on first use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ..model import Loaded, Model
from .easyocr_files import load_weights, weights_identity
from .text_boxes import Canvas, Maps, TextBoxes, text_boxes

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

DETECTOR = "craft_mlt_25k.pth"
# Of the channels of ImageNet.
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)


class Group(NamedTuple):
    """Pictures of one padded size (height, width), by their positions in a batch."""

    size: tuple[int, int]
    positions: list[int]


def padded(length: int) -> int:
    """Return the padded length of a side for the detector: a multiple of 32.

    >>> padded(360), padded(384)
    (384, 384)
    """
    return -(-length // 32) * 32


@dataclass(frozen=True, kw_only=True)
class TextDetector(
    Model, kind="easyocr detector", packages=("torch", "easyocr", "opencv-python-headless", "numpy")
):
    """Detects text. Items are ``Canvas``, outputs ``Maps``, or ``TextBoxes`` on a CPU; in fp32.

    Turning maps into boxes takes EasyOCR and PyTorch, 736 MB and four seconds in each decoder. On a
    CPU the process of the model does it, which has both. A GPU would wait for it: there decoders do
    it, several at a time.

    ``weights``: the folder of craft_mlt_25k.pth, "" for that of the extra ``ocr``. ``canvas``:
    pixels of the longer side, at most. Sides are padded to multiples of 32, as EasyOCR does; only
    pictures of equal padded size share a batch, since a wider margin would change results near an
    edge.
    """

    # It would take a minute and many GB.
    tries_on_cpu: ClassVar[bool] = False

    weights: str = ""
    canvas: int = 2560

    def load(self, device: str) -> Loaded:
        """Return the network. Raises ValueError if the weights are missing."""
        from easyocr.craft import CRAFT

        network = CRAFT()
        network.load_state_dict(load_weights(self.weights, DETECTOR, device))
        return network.to(device).eval().requires_grad_(requires_grad=False)

    def run(
        self, loaded: "torch.nn.Module", batch: Sequence[Canvas]
    ) -> list[Maps] | list[TextBoxes]:
        maps = self.maps(loaded, batch)
        if not _is_on_cpu(loaded):
            return maps
        return [text_boxes(output, canvas) for output, canvas in zip(maps, batch, strict=True)]

    def maps(self, loaded: "torch.nn.Module", batch: Sequence[Canvas]) -> list[Maps]:
        """Return the maps of each picture; pictures of equal padded size share a forward pass, except on a CPU.

        There, this would only take more memory.
        """
        maps: dict[int, Maps] = {}
        for group in _groups(batch, alone=_is_on_cpu(loaded)):
            canvases = [batch[position] for position in group.positions]
            scores = likelihoods(loaded, canvases, group.size)
            for position, canvas, of_canvas in zip(group.positions, canvases, scores, strict=True):
                longer_side = max(canvas.pixels.shape[:2])
                ratio = longer_side / max(canvas.width, canvas.height)
                maps[position] = Maps(of_canvas, canvas.width, canvas.height, ratio)
        return [maps[position] for position in range(len(batch))]

    def cost(self, item: Canvas) -> int:
        height, width = _padded_size(item)
        return height * width

    def largest(self) -> Canvas:
        import numpy as np

        return Canvas(np.zeros((self.canvas, self.canvas, 3), np.uint8), self.canvas, self.canvas)

    def identity(self) -> dict[str, object]:
        settings = {"canvas": self.canvas, "weights": weights_identity(self.weights, DETECTOR)}
        return {**super().identity(), "settings": settings}


def likelihoods(
    network: "torch.nn.Module", canvases: Sequence[Canvas], size: tuple[int, int]
) -> "NDArray[np.float32]":
    """Return the likelihoods of text and of links, an array of shape (canvases, height / 2, width / 2, 2).

    ``size``: the padded height and width of each canvas.
    """
    import numpy as np
    import torch

    pixels = np.zeros((len(canvases), *size, 3), np.uint8)
    for number, canvas in enumerate(canvases):
        height, width = canvas.pixels.shape[:2]
        pixels[number, :height, :width] = canvas.pixels
    device = next(network.parameters()).device
    images = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float()
    # In place: the numbers of one canvas may take 79 MB.
    images -= torch.tensor([255 * value for value in _MEAN], device=device).view(3, 1, 1)
    images /= torch.tensor([255 * value for value in _DEVIATION], device=device).view(3, 1, 1)
    # The second output is the features behind the maps.
    maps: torch.Tensor = network(images.contiguous())[0]
    return maps.float().cpu().numpy()


def _groups(batch: Sequence[Canvas], *, alone: bool) -> list[Group]:
    """Return the pictures that share a forward pass: all of equal padded size, or each one alone."""
    if alone:
        return [Group(_padded_size(canvas), [position]) for position, canvas in enumerate(batch)]
    groups: dict[tuple[int, int], Group] = {}
    for position, canvas in enumerate(batch):
        size = _padded_size(canvas)
        groups.setdefault(size, Group(size, [])).positions.append(position)
    return list(groups.values())


def _padded_size(canvas: Canvas) -> tuple[int, int]:
    height, width = canvas.pixels.shape[:2]
    return padded(height), padded(width)


def _is_on_cpu(network: "torch.nn.Module") -> bool:
    return next(network.parameters()).device.type == "cpu"
