"""Lists of images to avoid: evaluation sets, placeholders, takedowns.

Also the distance to the nearest image of a list.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .base import PixelScore, Tolerance
from .model.model_files import local_path, source_of, while_unchanged
from .perceptual_hash import phash_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .picture import Picture

Kind = Literal["phash", "embeddings"]
# Options of ``wdsflow measure`` that write such a list.
_OPTIONS = {
    "phash": "--scores phash --export hashes.npz",
    "embeddings": "--scores ... --embeddings --export embeddings.npz",
}


class ReferenceList(NamedTuple):
    """A list of images by their hashes or embeddings.

    ``values``: hashes, uint64 (n,), or embeddings of length 1, float32 (n, dimensions).
    ``metadata``: facts about the list, such as its model.
    """

    kind: Kind
    values: "NDArray[Any]"
    metadata: dict[str, Any]

    def check_model(self, identity: dict[str, object], name: str) -> None:
        """Raise ValueError unless the list was made with this model."""
        list_model = self.metadata.get("model")
        score_model = json.loads(json.dumps(identity, default=str))
        if list_model != score_model:
            list_text = json.dumps(list_model, sort_keys=True)[:500]
            score_text = json.dumps(score_model, sort_keys=True)[:500]
            raise ValueError(
                f"{name}: the list was made with another model: {list_text}; the score has {score_text}"
            )


def bytes_of_list(kind: Kind, values: "NDArray[Any]", metadata: dict[str, Any]) -> bytes:
    """Return the contents of a file for ``load_list``."""
    import io

    import numpy as np

    about_text = json.dumps({"kind": kind, **metadata}, sort_keys=True)
    file = io.BytesIO()
    np.savez(file, values=values, about=np.array(about_text))
    return file.getvalue()


def path_of(name: str, text: str) -> Path:
    """Return the path of a list.

    Raises ValueError, for the score ``name``, if the file is missing.
    """
    path = local_path(text)
    if path is None:
        raise ValueError(
            f"{name} needs a list: file='hashes.npz', which wdsflow measure ... {_OPTIONS['phash']} writes"
        )
    return path


def read_list(name: str, text: str) -> ReferenceList:
    """Return a list. Raises ValueError, for the score ``name``, if the file is none."""
    return _read(path_of(name, text))


def load_list(name: str, text: str, kind: Kind) -> ReferenceList:
    """Return a list of this kind. Raises ValueError as ``read_list``."""
    references = read_list(name, text)
    if references.kind != kind:
        raise ValueError(
            f"{name}: {text} is a list of {references.kind}; one of {kind}: wdsflow measure ... {_OPTIONS[kind]}"
        )
    return references


@while_unchanged
def _read(path: Path) -> ReferenceList:
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            values = arrays["values"]
            kind = about["kind"]
            dimensions = 1 if kind == "phash" else 2
            if kind not in _OPTIONS or values.ndim != dimensions or not len(values):
                raise ValueError("it is empty, or of an unknown kind")
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a list of images: {error}; wdsflow measure ... {_OPTIONS['phash']} writes one"
        ) from None
    if kind == "phash":
        return ReferenceList(kind, values.astype(np.uint64), about)
    vectors = values.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return ReferenceList(kind, vectors / np.maximum(lengths, 1e-12), about)


@dataclass(frozen=True, kw_only=True)
class PhashDistance(
    PixelScore,
    name="phash_distance",
    unit="bits",
    low=0,
    high=64,
    scale_tolerance=Tolerance(2, "bits"),
):
    """Number of bits in which an image's phash differs from the nearest one of a list.

    0 looks the same, 64 is the most.

    ``file`` is one that ``wdsflow measure URL... -o OUT --scores phash --export hashes.npz`` wrote.
    Of copies of 171 photographs, at a half to a tenth of their size and of low quality, 99 % differ
    in 0 to 4 bits, and none in more than 10; of 13,600 pairs of different ones, one in less than
    12. Source: see phash.
    """

    file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        path_of(self.name, self.file)

    def check_files(self) -> None:
        load_list(self.name, self.file, "phash")

    def settings(self) -> dict[str, object]:
        """Return the settings; the list by a hash of its contents."""
        return {**super().settings(), "file": source_of(self.file)}

    def of(self, picture: "Picture") -> int:
        """Return the number of bits."""
        import numpy as np

        from .comparing.hash_bits import count_ones

        references = load_list(self.name, self.file, "phash")
        image_hash = np.uint64(int.from_bytes(phash_bytes(picture), "big"))
        return int(count_ones(references.values ^ image_hash).min())
