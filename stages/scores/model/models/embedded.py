"""Which embeddings a score computes, and what each of them is of: so that they can be kept, and found again."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...base import versions_of
from .clip import ClipImage, ClipModel

if TYPE_CHECKING:
    from ...sample_view import View
    from ..model_score import Request

_IMAGE = 3  # parts of the key of an image; a frame has more


class Embedded(NamedTuple):
    """Embeddings of one kind, a few for each sample: of its images or of its captions, by one tower.

    ``settings``: those of the score that decide what is embedded, sorted by name, without those that have their defaults.
    """

    of: Literal["image", "caption"]
    model: ClipModel
    settings: tuple[tuple[str, Any], ...]


def embedding_key(view: "View", request: "Request") -> str:
    """Return what an embedding is of, within its sample: a field and how it was looked at, or the hash of a caption.

    "jpg", "jpg/horizontal", "jpg/exact", "mp4/uniform/3/0/av 18.1.0"; xxh3_128 of a caption's UTF-8. Of a file that is
    outside of the shard its state is part.
    """
    if isinstance(request.model, ClipImage):
        parts: Any = request.key
        decoder = f"av {versions_of('av')['av']}" if len(parts) > _IMAGE else ""
        return "/".join(str(part) for part in (*parts, view.state(parts[0]), decoder) if part != "")
    import xxhash

    return str(xxhash.xxh3_128_hexdigest(str(request.key).encode("utf-8", "surrogatepass")))
