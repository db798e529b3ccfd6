"""Base classes of rules: a code, a severity, a manual page, and a check of the evidence."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar, cast

from wdsflow.readers.base import Fate, Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.sidecars import Sidecars
from wdsflow.scan.evidence import Evidence, ShardEvidence, Tally
from wdsflow.scan.shapes import Part, Shape
from wdsflow.text.shell import command, escape, quote_path
from wdsflow.text.words import enumeration, how_many

from ...finding import Finding, Repair, Severity
from ...verdicts.wording import short_title

if TYPE_CHECKING:
    from ...forecast.forecast_result import Forecast
    from ...verdicts.check_result import CheckResult
    from ...verdicts.verdict import Verdict

T = TypeVar("T")
# A rule reports this many shards individually, and the others in one finding.
SHARDS_NAMED = 20
# A field name that an option can hold.
_FIELD = re.compile(r"[^/\s.,=][^/\s,=]*")


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a rule. ``arguments`` and ``sidecars`` are None if not requested."""

    evidence: Evidence
    readers: Sequence[Reader]
    verdicts: "Sequence[Verdict]"
    max_loss: float = 0.05
    # As the user wrote them.
    urls: tuple[str, ...] = ()
    arguments: Arguments | None = None
    forecasts: "tuple[Forecast, ...]" = ()
    # Of the user's loader.
    checks: "Sequence[CheckResult]" = ()
    sidecars: Sidecars | None = None
    # Distribution -> installed version.
    environment: dict[str, str] = field(default_factory=dict)
    _known: dict[Hashable, object] = field(default_factory=dict, repr=False)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns; it is called once for each key."""
        if key not in self._known:
            self._known[key] = make()
        return cast("T", self._known[key])

    def reader_names(self) -> tuple[str, ...]:
        """Return the names of all chosen readers."""
        return tuple(reader.name for reader in self.readers)

    def reader_named(self, name: str) -> Reader:
        """Return the chosen reader of a name."""
        return next(reader for reader in self.readers if reader.name == name)

    def verdict_of(self, name: str) -> "Verdict | None":
        """Return the verdict of a reader, by its name; None if it is not judged."""
        for verdict in self.verdicts:
            if verdict.reader == name:
                return verdict
        return None

    def usable_samples(self, name: str) -> int:
        """Return how many samples reach a batch of a reader, by its name; 0 if it is not judged."""
        verdict = self.verdict_of(name)
        return 0 if verdict is None else verdict.usable

    def fates(self, reader: Reader, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of a run of that shape, computed once per reader and shape."""
        return self.cached((id(reader), shape), lambda: reader.fates(shape))

    def bound_reader(self, reader: Reader) -> Reader:
        """Return a reader in its state after the first shards."""
        return self.cached(("bound", id(reader)), lambda: reader.bound_to(self.evidence.shards))

    def usable(self, reader: Reader, shape: Shape) -> int:
        """Return how many samples of one run of that shape reach a batch."""
        return sum(fate.kind == "usable" for fate in self.fates(reader, shape))

    def readers_ended_at(self, shard: ShardEvidence, reason: str) -> tuple[str, ...]:
        """Return the names of the readers that raise at a shard for this reason."""
        names = []
        for reader in self.readers:
            fate = reader.crash_at_shard(shard)
            if fate is not None and fate.reason == reason:
                names.append(reader.name)
        return tuple(names)

    def reader_titles(self, names: Iterable[str]) -> str:
        """Return the titles of readers as text: "OpenCLIP 3.3.0 and webdataset 1.x"."""
        named = set(names)
        readers = [reader for reader in self.readers if reader.name in named]
        return enumeration([short_title(reader.title) for reader in readers])

    def exception_text(self, names: Collection[str]) -> str:
        """Return the text that readers raise: "Ray Data ends with an exception"."""
        verb = "ends" if len(names) == 1 else "end"
        return f"{self.reader_titles(names)} {verb} with an exception"

    def readers_ended_by_fields(self) -> set[str]:
        """Return the names of readers that raise because their first samples differ in fields."""
        names = set()
        for verdict in self.verdicts:
            slugs = {reason.slug for reason in verdict.reasons}
            if verdict.outcome == "crashes" and "schema" in slugs:
                names.add(verdict.reader)
        return names

    def incomplete_samples_texts(
        self, names: Iterable[str], dropped: str, missing: str
    ) -> list[str]:
        """Describe what readers do with incomplete samples.

        The result is a list such as ["OpenCLIP 3.3.0 drops it", "Ray Data gives None for it"].

        Args:
            names: of the readers.
            dropped: the samples if readers drop them, such as "it" or "3 samples".
            missing: the samples if readers give None for what they miss.
        """
        named = set(names)
        ended_by_fields = self.readers_ended_by_fields()
        ended: list[str] = []
        dropping: list[str] = []
        giving: list[str] = []
        for reader in self.readers:
            if reader.name not in named:
                continue
            if reader.name in ended_by_fields:
                ended.append(reader.name)
            elif reader.gives_none:
                giving.append(reader.name)
            else:
                dropping.append(reader.name)
        texts = []
        if ended:
            texts.append(self.exception_text(ended))
        if dropping:
            verb = "drops" if len(dropping) == 1 else "drop"
            texts.append(f"{self.reader_titles(dropping)} {verb} {dropped}")
        if giving:
            verb = "gives" if len(giving) == 1 else "give"
            texts.append(f"{self.reader_titles(giving)} {verb} None for {missing}")
        return texts

    def targets(self) -> tuple[str, ...]:
        """Return all shards as arguments of a command: as the user wrote them, if possible."""
        return self.urls or tuple(shard.url for shard in self.evidence.shards)


class Count(int):
    """A number that is formatted with a noun.

    ``f"{Count(3):image is|images are}"`` is "3 images are".
    """

    def __format__(self, noun: str) -> str:
        one, _, several = noun.partition("|")
        return how_many(int(self), one, several) if noun else f"{int(self):,}"


class OneOrMany(int):
    """A number that only selects a word: ``f"{OneOrMany(3):is|are}"`` is "are"."""

    def __format__(self, words: str) -> str:
        return words.split("|")[self != 1]


class Locatable(Protocol):
    """Something with a location in a shard: a tally, a run, a shape."""

    @property
    def key(self) -> str | None: ...
    @property
    def offset(self) -> int | None: ...


class Rule(ABC):
    """One rule. The class docstring is its manual page.

    The page is a title line, then what, why it matters, in practice, and fix.
    """

    code: ClassVar[str]
    # The usual severity; a finding may differ.
    severity: ClassVar[Severity] = "warning"
    # Codes of rules whose findings explain those of this rule in a shard.
    requires: ClassVar[tuple[str, ...]] = ()
    # A finding is about all shards, and has the location of the first sample.
    of_set: ClassVar[bool] = False

    @abstractmethod
    def check(self, context: Context) -> Iterable[Finding]:
        """Yield one finding for each faulty shard.

        ``run_rules`` drops findings that others explain, and merges many into one.
        """

    def finding(
        self,
        message: str,
        readers: Iterable[str] = (),
        shard: ShardEvidence | str | None = None,
        location: Locatable | None = None,
        *,
        count: int = 1,
        of: int = 0,
        severity: Severity | None = None,
        fix: Repair | None = None,
    ) -> Finding:
        """Return a finding of this rule.

        ``count`` is a number of samples, images or captions out of ``of``.
        """
        return Finding(
            code=self.code,
            severity=severity or self.severity,
            message=message,
            shard=shard.url if isinstance(shard, ShardEvidence) else shard,
            key=location.key if location else None,
            offset=location.offset if location else None,
            count=count,
            rate=min(count / of, 1.0) if of else None,
            readers=tuple(readers),
            repair=fix,
        )

    def fix_of_set(self, context: Context) -> Repair | None:
        """Return a fix of the set other than ``wdsflow repair``; None if there is none.

        A repair is planned for all findings together.
        """
        return None

    @classmethod
    def title(cls) -> str:
        """Return the first line of the manual page, without its full stop."""
        return (cls.__doc__ or "").strip().splitlines()[0].rstrip(".")


class TallyRule(Rule):
    """A rule that fires for each shard in which one of its tallies is not zero.

    ``says`` is the message, a format string: ``{n:image is|images are}`` is the count with its
    noun, ``{verb:is|are}`` only the word, ``{first}`` an example in brackets, ``{where}`` the
    detail in brackets.
    """

    says: ClassVar[str]
    tallies: ClassVar[tuple[str, ...]] = ()
    # The tally counts samples, so a rate makes sense.
    counts_samples: ClassVar[bool] = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        """Return the one-line message for a shard; ``detail`` is already escaped."""
        return self.says.format(
            n=Count(count),
            verb=OneOrMany(count),
            first=example_text(detail),
            where=f" ({detail})" if detail else "",
        )

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Return the sum of the rule's tallies, located at the first that is not empty."""
        tallies = [shard.tally(name) for name in self.tallies]
        seen = [tally for tally in tallies if tally.count]
        if not seen:
            return Tally()
        return replace(seen[0], count=sum(tally.count for tally in seen))

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        """Return a fix of one shard other than ``wdsflow repair``; None if there is none.

        A repair is planned for all findings together.
        """
        return None

    def affected_readers(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        """Return the names of the affected readers; by default all chosen readers."""
        return context.reader_names()

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        """Return the severity for one shard."""
        return self.severity

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each shard in which something was counted."""
        for shard in context.evidence.shards:
            tally = self.tally_in(shard)
            if tally.count:
                yield self.finding_in(context, shard, tally)

    def finding_in(self, context: Context, shard: ShardEvidence, tally: Tally) -> Finding:
        """Return the finding for one shard."""
        return self.finding(
            self.message(shard, tally.count, escape(tally.detail)),
            self.affected_readers(context, shard),
            shard,
            tally,
            count=tally.count,
            of=shard.samples if self.counts_samples else 0,
            severity=self.severity_in(context, shard),
            # An empty shard cannot be fixed.
            fix=self.fix(shard, tally) if shard.samples or shard.error else None,
        )


def tally_of_fields(shard: ShardEvidence, at_fault: Callable[[Part], bool]) -> Tally:
    """Return the number of faulty fields, and the name of the first.

    They are counted by the shapes of samples.
    """
    tally = Tally()
    for item in shard.runs.shape_counts():
        names = [part.suffix for part in item.shape if at_fault(part)]
        if names:
            tally.add(item.key, item.offset, names[0], item.count * len(names))
    return tally


def example_text(detail: str) -> str:
    """Return an escaped detail as an example in brackets, "" if there is none.

    >>> example_text("a b.jpg")
    ' (first: a b.jpg)'
    """
    return f" (first: {detail})" if detail else ""


def filter_repair(urls: Sequence[str], where: str, note: str) -> Repair:
    """Return ``wdsflow filter URL... -o filtered --where WHERE`` as a repair.

    ``note`` explains its effect.
    """
    words = ["wdsflow filter", *map(quote_path, urls), "-o filtered", command(["--where", where])]
    return Repair(" ".join(words), safe=False, note=note, where=where)


def undecoded_name(name: str) -> str:
    """Return a name under which readers do not decode a field."""
    return f"{name.replace('.', '_')}_raw"


def is_option(name: str) -> bool:
    """Return whether the options of ``wdsflow repair`` can hold the name of a field."""
    return _FIELD.fullmatch(name) is not None
