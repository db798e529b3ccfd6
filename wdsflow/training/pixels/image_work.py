"""From the encoded bytes of an image to its position in a batch."""

import io
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wdsflow.stages.base import Dropped, StageError
from wdsflow.stages.decode import Admit, Decode
from wdsflow.stages.imaging.decoding_scale import Mode
from wdsflow.stages.imaging.rgb import HighDepth

from .result_faults import fault_of
from .transforms import RandomCrop, ResizeAndCrop, recognise

if TYPE_CHECKING:
    import torch

# A picture that any preprocessing accepts.
_NOISE = (256, 256, 3)
Hold = Callable[[int], AbstractContextManager[None]]
# Of a PIL image, by the user.
Preprocess: TypeAlias = Callable[[Any], Any]


class TransformError(RuntimeError):
    """The user's preprocessing raised an exception, or returned no image.

    The exception is the cause. ``always``: it fails for any image.
    """

    def __init__(self, message: str, *, always: bool = False) -> None:
        super().__init__(message)
        self.always = always


def image_work(
    preprocess: Preprocess,
    *,
    mode: Mode = "fast",
    k: float = 2.0,
    max_pixels: int | None = None,
    budget: int | None = None,
) -> "ImageWork":
    """Return the work for a preprocessing of PIL images; the options are those of ``Decode``.

    Recognised are the transforms of ``open_clip.image_transform``, except timm's and those with
    colour jitter or grey. In mode "reference" their results equal OpenCLIP's in every bit, given
    the same random numbers; only if a picture would grow beyond 67 million pixels before its centre
    is cut out, levels may differ by one. In mode "exact" they differ by at most 2 of 255 levels.
    Mode "fast" decodes JPEGs smaller, as long as the wanted part stays ``k`` times as large as the
    result, and scales images of more than 8 bits to 0..255, where the other modes clip them as
    OpenCLIP does. For any other preprocessing images are decoded in full, as in mode "exact".
    """
    transform = recognise(preprocess)
    high_depth: HighDepth = "scale" if mode == "fast" else "clip"
    if transform is None and mode == "fast":
        mode = "exact"
    output: Literal["pil", "numpy"] = "pil" if transform is None or mode == "reference" else "numpy"
    decode = Decode(
        mode=mode,
        k=k,
        max_pixels=max_pixels,
        high_depth=high_depth,
        budget=budget,
        output=output,
        on_error="raise",
    )
    return ImageWork(decode, preprocess if transform is None else None, transform)


def as_rgb(image: Any) -> NDArray[np.uint8]:
    """Return a PIL image as an RGB array (height, width, 3).

    This is the default preprocessing of a feed.
    """
    from wdsflow.stages.imaging.pillow_pixels import to_array

    return to_array(image.convert("RGB"))


class ImageWork:
    """Decodes and preprocesses images individually, and joins them into batches. Picklable.

    ``recognised``: the preprocessing is one of OpenCLIP's. It then runs in several threads at once,
    with its own random generator for each image. ``shape``: (3, height, width) of the results, None
    if unknown in advance. ``keeps_size``: the user gave no preprocessing, and images stay as large
    as they are.
    """

    def __init__(
        self,
        decode: Decode,
        preprocess: Preprocess | None,
        transform: ResizeAndCrop | RandomCrop | None,
    ) -> None:
        self._decode, self._preprocess, self._transform = decode, preprocess, transform
        self.recognised = transform is not None
        self.keeps_size = preprocess is as_rgb
        self.shape: tuple[int, int, int] | None = (
            None if transform is None else (3, *transform.size)
        )

    def limit_memory(self, budget: int) -> None:
        """Refuse images that take more than ``budget`` bytes while they are decoded."""
        self._decode = replace(self._decode, budget=budget)

    def import_all(self) -> None:
        """Import the modules that ``run`` needs for most images, by running it on a small one.

        Forked processes then import nothing: one would hang at a module that another thread of its
        parent was importing during the fork.
        """
        from PIL import Image

        small = io.BytesIO()
        Image.new("RGB", (64, 64)).save(small, "JPEG")
        # Refused if memory is scarce.
        with suppress(StageError, Dropped):
            if self._transform is None:
                self._decode.decode(small.getvalue())
            else:
                self.run(small.getvalue(), 0)

    def run(self, data: bytes, seed: int, hold: Hold | None = None) -> Any:
        """Return an item for ``collate``.

        A uint8 array (3, height, width) for a known transform, otherwise the result of the
        preprocessing.

        A known transform draws as after ``torch.manual_seed(seed)``; otherwise the global
        generators of Python, numpy and torch are seeded. ``hold`` returns a context for a number of
        bytes, the most that the image takes until it is small. Raises Dropped and StageError for
        faults of the image, TransformError if the user's preprocessing raises, or returns None, or
        numbers that are NaN or infinite.
        """
        if hold is None:
            return self._run(data, seed, None)
        with ExitStack() as held:

            def admit(peak: int) -> None:
                # Of a header that was wrong.
                held.close()
                held.enter_context(hold(peak))

            return self._run(data, seed, admit)

    def _run(self, data: bytes, seed: int, admit: Admit | None) -> object:
        transform = self._transform
        if transform is None:
            return self._run_preprocess(self._decode.decode(data, admit=admit), seed)
        from .openclip_pixels import transform_image

        return transform_image(transform, self._decode, data, seed, admit)

    def _run_preprocess(self, image: object, seed: int) -> object:
        from PIL import Image

        seed_generators(seed)
        made, wrong, error = self._preprocess_checked(image)
        if wrong:
            # A picture of noise shows whether the code or the image is faulty.
            again = self._preprocess_checked(
                Image.fromarray(np.random.default_rng(0).integers(0, 256, _NOISE, np.uint8))
            )
            always = again[1].partition(":")[0] == wrong.partition(":")[0] and not isinstance(
                error, OSError
            )
            raise TransformError(f"it {wrong}", always=always) from error
        return made

    def _preprocess_checked(self, image: object) -> tuple[object, str, BaseException | None]:
        """Return the preprocessed image, its fault, and the raised error. Raises MemoryError."""
        assert self._preprocess is not None
        try:
            made = self._preprocess(image)
        except MemoryError:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit, too; the caller raises from it
            return None, f"raised {type(error).__name__}: {error}", error
        return made, fault_of(made), None

    def collate(self, items: Sequence[Any], out: "torch.Tensor | None" = None) -> Any:
        """Join results of ``run`` into a batch: normalised floats (n, 3, height, width).

        The batch is in ``out`` if it is given.

        Tensors of an unknown preprocessing are stacked, in ``out`` if it fits; other values form a
        list.
        """
        import torch

        transform = self._transform
        if transform is None:
            items = [as_tensor(item) for item in items]
            if not items or not all(isinstance(item, torch.Tensor) for item in items):
                return list(items)
            fits = (
                out is not None
                and out.shape == (len(items), *items[0].shape)
                and out.dtype == items[0].dtype
            )
            return torch.stack(list(items), out=out if fits else None)
        from .normalise import normalise

        shape = (len(items), 3, *transform.size)
        if out is None:
            out = torch.empty(shape, dtype=torch.float32)
        elif out.shape != shape or out.dtype != torch.float32:
            raise ValueError(
                f"out is {out.dtype} of {tuple(out.shape)}; it must be float32 of {shape}"
            )
        normalise(
            items,
            transform.mean,
            transform.std,
            out.numpy(),
            exact=self._decode.mode == "reference",
        )
        return out


def seed_generators(seed: int) -> None:
    """Seed the global random generators of Python, numpy and torch.

    Transforms of other authors draw from these.
    """
    import random

    import torch

    random.seed(seed)
    np.random.seed(seed % (1 << 32))  # noqa: NPY002
    torch.default_generator.manual_seed(seed)


def as_tensor(item: object) -> Any:
    """Return an array of numbers as a tensor, as a DataLoader does; anything else unchanged."""
    import torch

    if isinstance(item, np.ndarray) and item.dtype.kind in "biuf":
        # A tensor of memory that cannot be written, such as
        # that of a PIL image, would make torch warn.
        return torch.as_tensor(item if item.flags.writeable else item.copy())
    return item


def as_array(item: object) -> NDArray[Any] | None:
    """Return an array or tensor of numbers as an array that shares its memory.

    None for anything else.
    """
    if type(item) is np.ndarray:
        return item if item.dtype.kind in "biuf" else None
    import torch

    if type(item) is not torch.Tensor:
        return None
    try:
        array: NDArray[Any] = item.numpy()
    except (RuntimeError, TypeError):
        # On another device, with gradients, sparse, of a type that numpy lacks.
        return None
    return array
