"""Shards on the Hugging Face hub: ``hf://`` urls are resolved to web addresses at a fixed commit.

huggingface_hub's own files would list the folder of a shard in each process, and ask the hub again
for each range; here a shard costs one request to the hub, and its ranges go to the storage behind
it. Folders are listed by huggingface_hub.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from .base import SourceError
from .limited_systems import limited
from .limits import silence_limit

if TYPE_CHECKING:
    from huggingface_hub import HfApi, HfFileSystem

SCHEME = "hf://"
_URL = re.compile(
    r"hf://(?:(datasets|spaces|buckets)/)?(?!(?:datasets|spaces|buckets)/)([^/@]+/[^/@]+)"
    r"(?:@(refs/(?:convert/\w+|pr/\d+)|[^/]+))?(?:/(.*))?",
    re.DOTALL,
)
_COMMIT = re.compile("[0-9a-f]{40}")


class HubUrl(NamedTuple):
    """The parts of an ``hf://`` url.

    ``kind`` is "datasets", "spaces", "buckets", or "" for a model.
    """

    kind: str
    name: str
    revision: str
    path: str

    @staticmethod
    def parse(url: str) -> "HubUrl":
        """Take a url apart. Raises SourceError."""
        match = _URL.fullmatch(url)
        if match is None:
            raise SourceError(
                "refused",
                f"{url} is not a url of the hub: write hf://datasets/ORGANIZATION/NAME/FILE",
            )
        kind, name, revision, path = match.groups("")
        return HubUrl(kind, name, unquote(revision or "main"), path)

    @property
    def repository(self) -> str:
        """The path of its repository, as in the address of its page."""
        return f"{self.kind}/{self.name}" if self.kind else self.name

    def pinned(self) -> str:
        """Return the url at the commit that its revision refers to now.

        Raises errors of huggingface_hub.

        A bucket has no commits. All urls of a process get the same commit of a revision, and so do
        its workers.
        """
        if self.kind == "buckets":
            return f"{SCHEME}{self.repository}/{self.path}"
        commit = self.revision
        if not _COMMIT.fullmatch(commit):
            commit = _commit(self.kind, self.name, self.revision)
        return f"{SCHEME}{self.repository}@{commit}/{self.path}"

    def file_facts(self) -> dict[str, object]:
        """Return the size and hash of a file, without listing its folder.

        Raises FileNotFoundError, and errors of huggingface_hub.
        """
        if self.kind == "buckets":
            entries = list(_api().get_bucket_paths_info(self.name, [self.path]))
        else:
            entries = _api().get_paths_info(
                self.name, [self.path], revision=self.revision, repo_type=self.kind[:-1] or None
            )
        # A folder has no size.
        if not entries or not hasattr(entries[0], "size"):
            raise FileNotFoundError(self.path)
        info = vars(entries[0])
        lfs = info.get("lfs")
        hashes = {
            "sha256": lfs and lfs.sha256,
            "xet_hash": info.get("xet_hash"),
            "blob_id": info.get("blob_id"),
        }
        name, value = next(item for item in hashes.items() if item[1])
        return {"size": info["size"], name: value}

    def web_file(self) -> tuple[Any, str]:
        """Return a web file system that has the user's token, and the address of the file in it."""
        import fsspec

        hub = _hub()
        from huggingface_hub.utils import build_hf_headers

        headers = build_hf_headers(token=hub.token, library_name="wdsflow")
        # Proxies of the environment, as the client of the hub.
        client = {"trust_env": True}
        web = limited(fsspec.filesystem("https", headers=headers, client_kwargs=client))
        revision = "" if self.kind == "buckets" else f"/{quote(self.revision, safe='')}"
        return web, f"{hub.endpoint}/{self.repository}/resolve{revision}/{quote(self.path)}"


def _hub() -> "HfFileSystem":
    """Return the file system of the hub.

    Its endpoint and token come from the environment or from fsspec's settings. Raises SourceError
    if HF_HUB_OFFLINE is set.
    """
    import fsspec

    # Raises ImportError with the name of the library.
    hub: HfFileSystem = limited(fsspec.filesystem("hf"))
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise SourceError(
            "io", "the hub is not asked, because HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE"
        )
    return hub


def _api() -> "HfApi":
    from huggingface_hub import HfApi

    hub = _hub()
    return HfApi(hub.endpoint, hub.token)


@lru_cache(maxsize=1024)
def _commit(kind: str, name: str, revision: str) -> str:
    info = _api().repo_info(
        name,
        revision=revision,
        repo_type=kind[:-1] or None,
        expand=["sha"],
        timeout=silence_limit(),
    )
    return str(info.sha)
