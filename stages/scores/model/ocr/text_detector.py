"""EasyOCR's detector of text, CRAFT, as a model. Heavy libraries are imported on first use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..model import Loaded, Model
from .canvas_groups import PaddedSize, groups_of, one_by_one, padded_size
from .easyocr_files import load_weights, weights_identity
from .text_boxes import Canvas, Maps, TextBoxes, text_boxes

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

DETECTOR = "craft_mlt_25k.pth"
# Of the channels of ImageNet, for values from 0 to 1.
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class TextDetector(
    Model, kind="easyocr detector", packages=("torch", "easyocr", "opencv-python-headless", "numpy")
):
    """Detects text. Items are ``Canvas``, outputs ``Maps``, or ``TextBoxes`` on a CPU; in fp32.

    Turning maps into boxes takes EasyOCR and PyTorch, 736 MB and four seconds in each decoder. On a
    CPU the process of the model does it, which has both. A GPU would wait for it: there decoders do
    it, several at a time.

    ``weights``: the folder of craft_mlt_25k.pth, "" for that of the extra ``ocr``. ``canvas``:
    pixels of the longer side, at most. Sides are padded to multiples of 32, as EasyOCR does.
    """

    # It would take a minute and many GB.
    tries_on_cpu: ClassVar[bool] = False

    weights: str = ""
    canvas: int = 2560

    def load(self, device: str) -> Loaded:
        """Return the network. Raises ValueError if the weights are missing."""
        import torch
        from easyocr.craft import CRAFT

        # On "meta" it has no values yet: drawing random ones, only to replace them by those of the
        # file, takes over a second.
        with torch.device("meta"):
            network = CRAFT()
        network.load_state_dict(load_weights(self.weights, DETECTOR, device), assign=True)
        return network.to(device).eval().requires_grad_(requires_grad=False)

    def run(
        self, loaded: "torch.nn.Module", batch: Sequence[Canvas]
    ) -> list[Maps] | list[TextBoxes]:
        maps = self.maps(loaded, batch)
        if not _is_on_cpu(loaded):
            return maps
        return [text_boxes(output, canvas) for output, canvas in zip(maps, batch, strict=True)]

    def maps(self, loaded: "torch.nn.Module", batch: Sequence[Canvas]) -> list[Maps]:
        """Return the maps of each canvas."""
        # On a CPU, a shared forward pass is not faster, and takes more memory.
        groups = one_by_one(batch) if _is_on_cpu(loaded) else groups_of(batch)
        map_at: dict[int, Maps] = {}
        for group in groups:
            canvases = [batch[position] for position in group.positions]
            scores = likelihoods(loaded, canvases, group.size)
            for number, position in enumerate(group.positions):
                map_at[position] = _maps_of(batch[position], scores[number])
        return [map_at[position] for position in range(len(batch))]

    def cost(self, item: Canvas) -> int:
        size = padded_size(item)
        return size.height * size.width

    def largest(self) -> Canvas:
        import numpy as np

        pixels = np.zeros((self.canvas, self.canvas, 3), np.uint8)
        return Canvas(pixels, width=self.canvas, height=self.canvas)

    def identity(self) -> dict[str, object]:
        settings = {"canvas": self.canvas, "weights": weights_identity(self.weights, DETECTOR)}
        return {**super().identity(), "settings": settings}


def likelihoods(
    network: "torch.nn.Module", canvases: Sequence[Canvas], size: PaddedSize
) -> "NDArray[np.float32]":
    """Return the likelihoods of text and of links.

    The result is an array of shape (canvases, height / 2, width / 2, 2).

    ``size``: the padded size of each canvas.
    """
    import numpy as np
    import torch

    pixels = np.zeros((len(canvases), size.height, size.width, 3), np.uint8)
    for number, canvas in enumerate(canvases):
        height, width = canvas.pixels.shape[:2]
        pixels[number, :height, :width] = canvas.pixels

    device = next(network.parameters()).device
    images = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float()
    mean = torch.tensor([255 * value for value in _MEAN], device=device)
    deviation = torch.tensor([255 * value for value in _DEVIATION], device=device)
    # In place: the numbers of one canvas may take 79 MB.
    images -= mean.view(3, 1, 1)
    images /= deviation.view(3, 1, 1)
    # The second output is the features from which the maps are made.
    maps: torch.Tensor = network(images.contiguous())[0]
    return maps.float().cpu().numpy()


def _maps_of(canvas: Canvas, scores: "NDArray[np.float32]") -> Maps:
    longer_side = max(canvas.pixels.shape[:2])
    ratio = longer_side / max(canvas.width, canvas.height)
    return Maps(scores, canvas.width, canvas.height, ratio)


def _is_on_cpu(network: "torch.nn.Module") -> bool:
    return next(network.parameters()).device.type == "cpu"
