"""Make images as large as a model wants them."""

from dataclasses import dataclass
from typing import Any, ClassVar

from wdsflow.shards.output_names import IMAGES

from .base import Dropped, Sample, SampleStage, StageError
from .fields import entries, images

_MOST_PIXELS = 1 << 26  # of a result: a picture of 10,000 x 1 would become one of 2 million x 224


@dataclass(frozen=True)
class Resize(SampleStage):
    """Resize RGB images, bicubic with antialiasing, to the sizes that torchvision's ``Resize`` and ``CenterCrop`` give.

    ``size``: of the shortest side in pixels, or (height, width) for both, whatever becomes of the shape. ``crop`` cuts
    the centre out, ``size`` x ``size``. Images are PIL images or arrays (height, width, 3) of uint8, and stay what they
    are. Where torch can be imported its kernel is used, at most 2 levels from Pillow's and several times as fast; it is
    Pillow's otherwise. What ``Decode`` made smaller while decoding comes out as if it had not.

    A result of more than 67 million pixels is dropped as "too-long"; a value that is no image fails as "not-pixels".
    """

    name: ClassVar[str] = "resize"

    size: int | tuple[int, int]
    crop: bool = False
    fields: str | tuple[str, ...] = IMAGES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "fields", entries(self.fields, "Resize(224, fields='image')"))
        sides = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        if any(side < 1 for side in sides) or len(sides) > 2:
            raise ValueError(f"size is {self.size!r}; give one side, or (height, width), of at least 1 pixel")
        if not isinstance(self.size, int):
            object.__setattr__(self, "size", sides)

    @property
    def reads(self) -> frozenset[str]:
        """The fields to resize."""
        return frozenset(self.fields)

    @property
    def writes(self) -> frozenset[str]:
        """The same fields, resized."""
        return self.reads

    def apply(self, sample: Sample) -> Sample:
        """Resize the images of one sample."""
        for name in images(sample, self.fields):
            sample[name] = self.resize(sample[name])
        return sample

    def resize(self, image: Any) -> Any:
        """Resize one image."""
        import numpy as np
        from PIL import Image

        from .imaging.resample import box_of, has_torch, output_size, resize, resize_with_pillow

        is_array = isinstance(image, np.ndarray)
        if is_array:
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
                raise StageError("not-pixels", f"an array of {image.dtype} {image.shape}, not uint8 (height, width, 3)")
        elif not isinstance(image, Image.Image):
            raise StageError("not-pixels", f"a {type(image).__name__}, no image: is it decoded?")
        elif image.mode != "RGB":
            raise StageError("not-pixels", f"a PIL image of mode {image.mode}, not RGB")
        box = box_of(image)
        size = output_size(box[2] - box[0], box[3] - box[1], self.size)
        crop = (self.size, self.size) if self.crop and isinstance(self.size, int) else None
        if crop is None and size[0] * size[1] > _MOST_PIXELS:
            raise Dropped("too-long")
        if is_array:
            return np.ascontiguousarray(resize(image, box, size, crop))
        if has_torch():
            return Image.fromarray(np.ascontiguousarray(resize(np.array(image), box, size, crop)))
        return resize_with_pillow(image, box, size, crop)
