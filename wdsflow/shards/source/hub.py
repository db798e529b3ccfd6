"""Shards on the Hugging Face hub: ``hf://`` urls become those of files that its web server sends, at a fixed commit.

huggingface_hub's own files would list the folder of a shard in each process, and ask the hub again for each range; here a
shard costs one request to the hub, and its ranges go to the storage behind it. Folders are listed by huggingface_hub.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from .base import SourceError

if TYPE_CHECKING:
    from huggingface_hub import HfApi, HfFileSystem

SCHEME = "hf://"
_URL = re.compile(
    r"hf://(?P<kind>datasets/|spaces/|buckets/|(?!(?:datasets|spaces|buckets)/))(?P<name>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/(?:convert/\w+|pr/\d+)|[^/]+))?(?:/(?P<path>.*))?",
    re.DOTALL,
)
_COMMIT = re.compile("[0-9a-f]{40}")


class HubUrl(NamedTuple):
    """The parts of an ``hf://`` url; ``kind`` is "datasets", "spaces", "buckets", or "" for a model."""

    kind: str
    name: str
    revision: str
    path: str

    @staticmethod
    def of(url: str) -> "HubUrl":
        """Take a url apart. Raises SourceError."""
        found = _URL.fullmatch(url)
        if found is None:
            raise SourceError("refused", f"{url} is not a url of the hub: write hf://datasets/ORGANIZATION/NAME/FILE")
        return HubUrl(
            found["kind"].rstrip("/"), found["name"], unquote(found["revision"] or "main"), found["path"] or ""
        )

    @property
    def place(self) -> str:
        """The path of its repository, as in the address of its page."""
        return f"{self.kind}/{self.name}" if self.kind else self.name

    def pinned(self) -> str:
        """Return the url at the commit to which its revision leads now. Raises errors of huggingface_hub.

        A bucket has no commits. All urls of a process get the same commit of a revision, and so do its workers.
        """
        if self.kind == "buckets" or _COMMIT.fullmatch(self.revision):
            commit = "" if self.kind == "buckets" else f"@{self.revision}"
        else:
            commit = f"@{_commit(self.kind, self.name, self.revision)}"
        return f"{SCHEME}{self.place}{commit}/{self.path}"

    def facts(self) -> dict[str, object]:
        """Return size and hash of a file, without a listing. Raises FileNotFoundError, and errors of huggingface_hub."""
        api = _api()
        if self.kind == "buckets":
            found = list(api.get_bucket_paths_info(self.name, [self.path]))
        else:
            found = api.get_paths_info(self.name, [self.path], revision=self.revision, repo_type=_type(self.kind))
        if not found or getattr(found[0], "size", None) is None:
            raise FileNotFoundError(self.path)
        lfs = getattr(found[0], "lfs", None)
        marks = {
            "sha256": lfs and lfs.sha256,
            "xet_hash": found[0].xet_hash,
            "blob_id": getattr(found[0], "blob_id", None),
        }
        name = next((name for name, value in marks.items() if value), "sha256")
        return {"size": found[0].size, name: marks[name]}

    def web(self) -> tuple[Any, str]:
        """Return a file system for the web that has the user's token, and the address of the file there."""
        import fsspec

        hub = _hub()
        from huggingface_hub.utils import build_hf_headers

        revision = "" if self.kind == "buckets" else f"/{quote(self.revision, safe='')}"
        headers = build_hf_headers(token=hub.token, library_name="wdsflow")
        web = fsspec.filesystem(
            "https", headers=headers, client_kwargs={"trust_env": True}
        )  # proxies, as the hub's client
        return web, f"{hub.endpoint}/{self.place}/resolve{revision}/{quote(self.path)}"


def _hub() -> "HfFileSystem":
    """Return the file system of the hub, which has endpoint and token from the environment, or fsspec's settings."""
    import fsspec

    hub: HfFileSystem = fsspec.filesystem("hf")  # raises ImportError with the name of the library
    from huggingface_hub import constants
    from huggingface_hub.errors import OfflineModeIsEnabled

    if constants.HF_HUB_OFFLINE:
        raise OfflineModeIsEnabled("HF_HUB_OFFLINE is set")
    return hub


def _api() -> "HfApi":
    from huggingface_hub import HfApi

    hub = _hub()
    return HfApi(hub.endpoint, hub.token)


def _type(kind: str) -> str:
    return kind.rstrip("s") or "model"


@lru_cache(maxsize=1024)
def _commit(kind: str, name: str, revision: str) -> str:
    return str(_api().repo_info(name, revision=revision, repo_type=_type(kind), expand=["sha"]).sha)
