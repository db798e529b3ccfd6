"""Write the files about shards next to them, in one pass over each shard."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from wdsflow.records.refusals import refuse_inputs
from wdsflow.records.unfinished import INSIDE
from wdsflow.shards.certificate import dump
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import SourceError, local_file, local_folder, place_of
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .energon_database import EnergonDatabase
from .index_options import KINDS, IndexOptions
from .index_report import MANIFEST, NV_SQLITE, NV_UUID, OF_OFFSETS, IndexLine, IndexRecord, IndexReport, shard_files
from .shard_pass import ShardContents, ShardFacts, pass_over
from .sidecars import CannotIndex, listed_shards, manifest_of, render, render_set, render_settings, render_sizes

_CODE = 3  # version of the result of a pass


class PartOfSet(ValueError):
    """Files about all shards would list only a part of those that they list now; ``folders`` hold all of them."""

    def __init__(self, path: Path, left: Sequence[str], folders: Sequence[str]) -> None:
        some = f"{', '.join(left[:3])}{' ...' if len(left) > 3 else ''}"
        super().__init__(f"{path} would no longer list {how_many(len(left), 'shard')} that are still there: {some}")
        self.folders = list(folders)


@dataclass(frozen=True)
class _Job:
    name: str  # of the shard, without folder
    url: str
    number: int
    identity: dict[str, object]  # before the pass
    kinds: tuple[str, ...]

    @property
    def hashed(self) -> bool:
        return "checksums" in self.kinds

    @property
    def made_from(self) -> dict[str, object]:
        return {"code": _CODE, "shard": self.identity}


@dataclass
class _Passed:
    facts: ShardFacts
    contents: ShardContents = field(default_factory=ShardContents)
    files: dict[str, bytes | CannotIndex] = field(default_factory=dict)  # by kind


@keywords(IndexOptions)
def index_shards(urls: str | Iterable[str], options: IndexOptions) -> IndexReport:
    """Write files about shards, in the formats of their readers, next to the shards.

    A shard is read once for all kinds, and only its headers, unless ``checksums`` is among them. The same call again
    reads only shards that changed. A file that something else wrote is replaced only by the same contents. A damaged
    shard is not indexed: an index of it would mislead.

    Args:
        urls: shards, as for ``check``.
        options: each is a keyword argument.

    Raises:
        ValueError: unknown kinds; urls that match nothing, or cannot have files next to them.
        PartOfSet: without ``force``, a file about all shards lists others that are still there.
        Busy: another run works in the folder.
        OSError: a file cannot be written. Finished files are kept, partial ones removed.
    """
    if options.jobs < 1:
        raise ValueError("jobs must be at least 1")
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        raise ValueError(f"there is no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    kinds = tuple(kind for kind in KINDS if kind in options.kinds)
    found, out, force = expand_existing(urls), options.out, options.force
    places = _places(list(dict.fromkeys(found)), None if out is None else local_folder(out))
    for folder, shards in places.items():
        _check_names(folder, shards, kinds)
    if not force:
        _refuse_part(places, kinds)
    report = IndexReport()
    for folder, shards in places.items():
        with IndexRecord(folder, report, force=force) as record:
            record.begin({}, [])
            _FolderIndex(shards, kinds, record).run(options.jobs, options.begin)
    report.check()
    return report


def _places(urls: Sequence[str], out: Path | None) -> dict[Path, dict[str, str]]:
    """Return the shards of each folder, by name. Raises ValueError."""
    places: dict[Path, dict[str, str]] = {}
    folders: dict[str, Path] = {}  # by their real paths: they may be named in several ways
    for url in urls:
        path = local_file(url)
        if url.startswith("pipe:"):
            raise ValueError(f"the output of a command has no name: name the shards as files or urls: {url}")
        if path is None and out is None:
            raise ValueError(f"{url} is not a local file: give a folder for the files")
        home = "" if path is None else os.path.realpath(os.path.dirname(path) or ".")
        folder = out or folders.setdefault(home, Path(os.path.dirname(str(path)) or "."))
        name = os.path.basename(path if path is not None else urlsplit(url).path)
        first = places.setdefault(folder, {}).setdefault(name, url)
        if place_of(first) != place_of(url):
            raise ValueError(f"{places[folder][name]} and {url} have the same name: index one folder at a time")
    return places


def _check_names(folder: Path, shards: Mapping[str, str], kinds: Sequence[str]) -> None:
    """Raise ValueError or FileExistsError if files would replace each other, or a shard."""
    made: dict[str, str] = dict.fromkeys(
        (*render_sizes(folder, {}, kinds), *render_set({}, kinds, folder), MANIFEST), "all shards"
    )
    for shard in shards:
        for name in shard_files(shard, kinds).values():
            if name in made:
                raise ValueError(f"{shard} and {made[name]} would have the same file {name}: rename the shard")
            made[name] = shard
    refuse_inputs(shards.values(), [folder / name for name in made])


def _refuse_part(places: Mapping[Path, Mapping[str, str]], kinds: Sequence[str]) -> None:
    """Raise PartOfSet if a file would no longer list shards that still exist next to the given ones."""
    local = {url: local_file(url) for shards in places.values() for url in shards.values()}
    homes = list(dict.fromkeys(os.path.dirname(path) or "." for path in local.values() if path is not None))
    for folder, shards in places.items():
        here = {os.path.dirname(path) or "." for url in shards.values() if (path := local[url]) is not None}
        for file, names in listed_shards(folder, kinds).items():
            left = [name for name in names if name not in shards and any(os.path.isfile(f"{at}/{name}") for at in here)]
            if left:
                raise PartOfSet(file, left, homes)


class _FolderIndex:
    """The index of the shards of one folder."""

    def __init__(self, shards: Mapping[str, str], kinds: tuple[str, ...], record: IndexRecord) -> None:
        self._shards, self._kinds, self._record = shards, kinds, record
        self._folder, self._report = record.folder, record.report
        self._facts: dict[str, ShardFacts] = {}
        self._of: dict[str, dict[str, object]] = {}  # identities of the shards that are indexed
        self._numbers = {name: number for number, name in enumerate(shards)}
        self._lacking: set[tuple[str, str]] = set()  # kind and shard
        self._database: EnergonDatabase | None = None

    def run(self, jobs: int, begin: Begin | None) -> None:
        """Index what is not indexed yet. Raises OSError."""
        report, record = self._report, self._record
        report.stale_removed += record.stale
        work = [job for job in map(self._to_do, self._shards) if not self._is_done(job)]
        with ExitStack() as stack:
            if "energon" in self._kinds and not work and record.is_made_from(NV_SQLITE, {"shards": _digest(self._of)}):
                report.same += 1
            elif "energon" in self._kinds and not record.may_replace(NV_SQLITE):
                report.kept.append(str(self._folder / NV_SQLITE))
            elif "energon" in self._kinds:  # it is made of all shards
                work = [self._to_do(name) for name in self._shards]
                self._facts, self._of, report.same = {}, {}, 0
                self._database = stack.enter_context(EnergonDatabase(self._folder / NV_SQLITE))
            report.resumed += len(self._shards) - len(work)
            run_in_threads(work, _passed, self._note, jobs, begin)
            report.refused.sort()  # shards end in any order
            report.lacking.sort()
            self._finish()
        self._remove_gone()
        record.finish()
        report.shards += len(self._shards)
        samples = sum(facts.samples for facts in self._facts.values())
        report.samples += samples
        report.indexed += samples

    def _to_do(self, name: str) -> _Job:
        url = self._shards[name]
        return _Job(name, url, self._numbers[name], _identity(url), self._kinds)

    def _is_done(self, job: _Job) -> bool:
        """Return whether all files of a shard exist; if so, take the facts from the record."""
        try:
            found = self._record.known(_line_of(job.name), lambda: job.made_from)[0]
            facts = ShardFacts.from_dict(found.facts) if found and job.identity and found.facts else None
        except (TypeError, ValueError):
            return False
        if facts is None or self._record.force or (job.hashed and facts.identity is None):
            return False
        files = shard_files(job.name, self._kinds).values()
        if not all(self._record.is_made_from(file, job.identity) for file in files):
            return False
        facts.url = job.url
        self._facts[job.name], self._of[job.name] = facts, job.identity
        self._report.same += len(files)
        return True

    def _note(self, job: _Job, passed: _Passed) -> None:
        """Write the files of a shard, and record its facts."""
        report, facts = self._report, passed.facts
        if facts.damage:
            report.refused.append((job.url, "; ".join(facts.damage)))
            report.unpack |= {job.url: facts.unpack} if facts.unpack else {}
            report.samples += facts.samples
            report.left_out += Counter({"in damaged shards": facts.samples})
            self._add_to_database(job, None)
            return
        names = shard_files(job.name, job.kinds)
        for kind, data in passed.files.items():
            if isinstance(data, CannotIndex):
                self._lack(kind, job.name, names[kind], data)
            else:
                self._record.put(names[kind], data, job.identity)
        self._add_to_database(job, None if ("energon", job.name) in self._lacking else passed.contents)
        self._facts[job.name], self._of[job.name] = facts, job.identity
        self._record.add(IndexLine(name=_line_of(job.name), made_from=job.made_from, facts=facts.to_dict()))

    def _add_to_database(self, job: _Job, contents: ShardContents | None) -> None:
        if self._database is not None:
            try:
                self._database.add(job.number, contents)
            except CannotIndex as error:
                self._lack("energon", job.name, NV_SQLITE, error)
                self._database = None

    def _lack(self, kind: str, shard: str, file: str, why: CannotIndex) -> None:
        self._lacking.add((kind, shard))
        self._report.lacking.append((str(self._folder / file), str(why)))

    def _finish(self) -> None:
        """Write the files about all shards."""
        shards = {name: self._facts[name] for name in self._shards if name in self._facts}
        if not shards:
            return
        of = {"shards": _digest(self._of)}
        damaged = [name for name in self._shards if name not in shards]
        kinds = [kind for kind in self._kinds if kind != "energon"]
        files = render_sizes(self._folder, shards, kinds, without=damaged) | render_set(shards, kinds, self._folder)
        path = self._folder / MANIFEST
        if "checksums" in kinds:
            files[MANIFEST] = dump(manifest_of(list(shards.values()), path))
        for name, data in files.items():
            self._record.put(name, data, of)
        if "checksums" in kinds and str(path) not in self._report.kept:
            self._report.manifests.append(str(path))
        lacking = any(kind == "energon" for kind, _ in self._lacking)
        if "energon" in self._kinds and not lacking:  # its folder describes all shards, or none
            self._finish_energon(shards, of)

    def _finish_energon(self, shards: Mapping[str, ShardFacts], of: Mapping[str, object]) -> None:
        if self._database is not None:
            self._database.commit([self._numbers[name] for name in shards])
            self._record.note(NV_SQLITE, of)
        files = render_set(shards, ["energon"], self._folder)
        files[NV_UUID] = str(uuid5(NAMESPACE_URL, str(of["shards"]))).encode()  # changes with the shards
        for name, data in files.items():
            self._record.put(name, data, of)
        for name, data in render_settings(shards).items():
            if self._record.may_replace(name):
                self._record.put(name, data, of)
            elif (self._folder / name).read_bytes() != data:
                self._report.settings.append(str(self._folder / name))

    def _remove_gone(self) -> None:
        """Remove the files of shards that no longer exist, if the files are unchanged."""
        homes = {os.path.dirname(path or "?") or "." for path in map(local_file, self._shards.values())}
        if any(os.path.realpath(home) != os.path.realpath(self._folder) for home in homes):
            return  # the files are in a folder without shards
        lines = [line for line in self._record.lines if line.startswith(_line_of(""))]
        there = {line for line in lines if self._is_there(line)} | {_line_of(name) for name in self._shards}
        used = {file for line in there for file in shard_files(os.path.basename(line), KINDS).values()}
        for line in lines:
            if line not in there:
                for name in sorted(set(shard_files(os.path.basename(line), KINDS).values()) - used):
                    self._record.unlink(name)
                self._record.lines.pop(line, None)

    def _is_there(self, line: str) -> bool:
        """Return whether a shard of the record exists, or may exist because it is not next to its files."""
        found = self._record.ours(line)
        path = local_file(str(found.facts["url"])) if found and found.facts and "url" in found.facts else None
        return path is None or os.path.lexists(path) or os.path.lexists(self._folder / os.path.basename(line))


def _passed(job: _Job, stop: Event) -> _Passed:
    """Pass over a shard and make its files, without writing them."""
    if stop.is_set():
        raise InterruptedError
    files = shard_files(job.name, job.kinds)
    places = not OF_OFFSETS.isdisjoint(files)
    facts, contents = pass_over(job.url, places=places, hashed=job.hashed)
    if not facts.damage and _identity(job.url) != job.identity:
        facts.damage = ["it changed while it was read"]
    passed = _Passed(facts, contents)
    if not facts.damage:
        for kind in files:
            try:
                passed.files[kind] = render(kind, job.name, facts, contents)
            except CannotIndex as error:
                passed.files[kind] = error
    if "energon" not in job.kinds:
        passed.contents = ShardContents()
    return passed


def _identity(url: str) -> dict[str, object]:
    try:
        return input_identity(url)
    except SourceError:
        return {}


def _line_of(name: str) -> str:
    """Return the name of a shard's line in the record; no file has that name."""
    return f"{INSIDE}/index/{name}"


def _digest(of: Mapping[str, object]) -> str:
    return sha256(repr(sorted(of.items())).encode("utf-8", "surrogateescape")).hexdigest()
