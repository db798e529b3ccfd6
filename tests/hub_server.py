"""A Hugging Face hub on loopback that huggingface_hub can talk to.

It serves repositories with commits, and buckets. A separate storage server holds the files.
"""

import contextlib
import hashlib
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.servers import Answer, Handler, Log, http_server, serving

TOKEN = "hf_of_a_reader"
_PAGE = 2  # entries of a listing that come at once


@dataclass
class Repository:
    """The files of each commit, and the commit of each branch.

    ``who`` may read it: "all", "readers" with a token, or the "members" of a gated repository.
    """

    commits: dict[str, dict[str, bytes]]
    branches: dict[str, str]
    who: str = "all"


@dataclass
class Hub:
    repositories: dict[str, Repository] = field(default_factory=dict)  # by "datasets/o/n"
    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)  # by "o/b"
    stored: dict[str, bytes] = field(default_factory=dict)  # behind the hub, by hash
    log: Log = field(default_factory=Log)
    storage: Log = field(default_factory=Log)
    url: str = ""

    @property
    def tokens_at_storage(self) -> list[str]:
        """Credentials that were sent to the storage."""
        return [asked.token for asked in self.storage.asked if asked.token]

    def commit(self, place: str, files: dict[str, bytes], **options: str) -> str:
        """Add a commit to main, and return its hash."""
        found = self.repositories.setdefault(place, Repository({}, {}, **options))
        commit = hashlib.sha1(repr((place, len(found.commits), sorted(files))).encode()).hexdigest()
        found.commits[commit] = files
        found.branches["main"] = commit
        self.keep(files)
        return commit

    def keep(self, files: dict[str, bytes]) -> None:
        self.stored.update({_sha256(data): data for data in files.values()})


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Refused(Exception):
    def __init__(self, status: int, code: str = "", text: str = "") -> None:
        self.answer = Answer(status, {"X-Error-Code": code} if code else {}, text.encode())
        if text:
            self.answer.headers["X-Error-Message"] = text


class _Asked(Handler):
    hub: Hub
    storage_url: str

    def do_GET(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        try:
            answer = self.route(parts, dict(urllib.parse.parse_qsl(query)), body)
        except _Refused as refused:
            answer = refused.answer
        self.answer(answer)

    do_HEAD = do_POST = do_GET  # noqa: N815

    def route(self, parts: list[str], query: dict[str, str], body: bytes) -> Answer:
        api = parts[0] == "api"
        kind, owner, name, *rest = parts[1:] if api else parts
        if kind == "buckets":
            files = self.hub.buckets.get(f"{owner}/{name}")
            if files is None:
                raise _Refused(404, "RepoNotFound", "Repository not found")
            what = rest[0] if rest else "info"
            if what == "info":
                about = {
                    "id": f"{owner}/{name}",
                    "private": False,
                    "createdAt": "2026-01-01T00:00:00.000Z",
                }
                return _json({**about, "size": 1, "totalFiles": len(files)})
            names = ["/".join(rest[1:])]
        else:
            found = self.allowed(f"{kind}/{owner}/{name}")
            what, revision = (*rest, "main", "main")[:2] if rest else ("revision", "main")
            commit = found.branches.get(revision, revision)
            if commit not in found.commits:
                raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            files = found.commits[commit]
            if what == "revision":
                return _json({"id": f"{owner}/{name}", "sha": commit, "siblings": []})
            names = ["/".join(rest[2:])]
        if what == "resolve":
            return self.resolve(files, names[0])
        if what == "tree":
            return self.tree(files, names[0], query, bucket=kind == "buckets")
        asked = (
            json.loads(body)["paths"]
            if body.startswith(b"{")
            else urllib.parse.parse_qs(body.decode())["paths"]
        )
        return _json(
            [_entry(name, files[name], bucket=kind == "buckets") for name in asked if name in files]
        )

    def allowed(self, place: str) -> Repository:
        found, token = self.hub.repositories.get(place), self.headers.get("Authorization")
        if token not in (None, f"Bearer {TOKEN}"):
            raise _Refused(401, "", "Invalid credentials in Authorization header")
        if found is None or (found.who == "readers" and token is None):
            raise (
                _Refused(404, "RepoNotFound", "Repository not found")
                if token
                else _Refused(401, "", "Invalid username or password.")
            )
        if found.who == "members" and "resolve" in self.path:
            raise _Refused(
                403 if token else 401, "GatedRepo", "Access to this dataset is restricted."
            )
        return found

    def resolve(self, files: dict[str, bytes], name: str) -> Answer:
        if name not in files:
            raise _Refused(404, "EntryNotFound", "Entry not found")
        mark = _sha256(files[name])
        headers = {
            "Location": f"{self.storage_url}/{mark}?Signature=x",
            "X-Linked-Etag": f'"{mark}"',
        }
        return Answer(302, headers, b"Found. Redirecting")

    def tree(
        self, files: dict[str, bytes], folder: str, query: dict[str, str], *, bucket: bool
    ) -> Answer:
        before, deep = f"{folder}/" if folder else "", query.get("recursive", "").lower() == "true"
        found: dict[str, dict[str, object]] = {}
        for name, data in sorted(files.items()):
            below = name[len(before) :].split("/")
            if not name.startswith(before):
                continue
            for depth in range(1, len(below) if deep else min(2, len(below))):
                inner = before + "/".join(below[:depth])
                found.setdefault(
                    inner, {"type": "directory", "path": inner, "oid": _sha256(inner.encode())[:40]}
                )
            if deep or len(below) == 1:
                found[name] = _entry(name, data, bucket=bucket)
        if not found:
            raise _Refused(404, "EntryNotFound", "Entry not found")
        start = int(query.get("cursor", 0))
        headers = {}
        if start + _PAGE < len(found):
            more = urllib.parse.urlencode({**query, "cursor": start + _PAGE})
            headers["Link"] = f'<{self.hub.url}{self.path.partition("?")[0]}?{more}>; rel="next"'
        answer = _json(list(found.values())[start : start + _PAGE])
        answer.headers.update(headers)
        return answer


def _entry(name: str, data: bytes, *, bucket: bool) -> dict[str, object]:
    mark = _sha256(data)
    if bucket:
        return {
            "type": "file",
            "path": name,
            "size": len(data),
            "xetHash": mark[::-1],
            "mtime": "2026-01-01T00:00:00.000Z",
        }
    lfs = {"oid": mark, "size": len(data), "pointerSize": 130}
    return {
        "type": "file",
        "path": name,
        "size": len(data),
        "oid": mark[:40],
        "lfs": lfs,
        "xetHash": mark[::-1],
    }


def _json(what: object) -> Answer:
    return Answer(200, {"Content-Type": "application/json"}, json.dumps(what).encode())


@contextlib.contextmanager
def hub_server() -> Iterator[Hub]:
    """Run a hub and a storage server for its files.

    The storage has another host name of this machine, and must never receive the token.
    """
    hub = Hub()
    with http_server(hub.stored) as (storage_url, storage):
        handler = type(
            "Asked",
            (_Asked,),
            {"hub": hub, "storage_url": storage_url.replace("127.0.0.1", "localhost")},
        )
        with serving(handler) as (url, log):
            hub.url, hub.log, hub.storage = url, log, storage
            yield hub
