"""The arguments of ``check`` as commands to paste: the same with another argument, or a repair."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

from wdsflow.shards.shard import PIPE
from wdsflow.shards.written_names import compact
from wdsflow.text.shell import command, quote_path

from ..finding import Advice, Finding, Repair

_NAMED = 4  # shards that a command lists individually


@dataclass(frozen=True)
class Invocation:
    """The arguments of ``wdsflow validate`` that matter for running it again."""

    urls: tuple[str, ...]  # as the user wrote them
    readers: tuple[str, ...] = ()
    level: str = "auto"
    training: Sequence[str] | None = None  # words for open_clip_train
    world_size: int = 1
    allow_pipe: bool = False
    pipeline: str | None = None

    def read_on(self) -> str:
        """Return the command that runs the pipeline over all samples."""
        words = [word for name in self.readers for word in ("--for", name)]
        words += ["--pipeline", self.pipeline or "", "--level", "full", *self._allowed()]
        return " ".join(["wdsflow validate", *map(quote_path, compact(self.urls, _NAMED)), command(words)])

    def with_training(self, flags: Sequence[str]) -> str:
        """Return the command that judges the same shards for another value of a flag of the training command."""
        training = with_flags(self.training or (), flags)
        words = [word for name in self.readers if name != "open-clip" for word in ("--for", name)]
        words += ["--level", self.level] if self.level != "auto" else []
        words += ["--world-size", str(self.world_size)] if self.world_size > 1 else []
        data = train_data(training) or ""
        words += ["--allow-pipe"] if data.startswith(PIPE) else self._allowed()
        named = (train_data(training), train_data(self.training or ()))
        urls = [] if len(self.urls) == 1 and self.urls[0] in named else compact(self.urls, _NAMED)
        return " ".join(["wdsflow validate", *map(quote_path, urls), command([*words, "--", *training])])

    def repair(self, options: Sequence[str], folder: str) -> str:
        """Return the command that repairs all shards into a folder."""
        words = [*self._allowed(), *options]
        parts = [
            "wdsflow repair",
            *map(quote_path, compact(self.urls, _NAMED)),
            "-o",
            quote_path(folder),
            command(words),
        ]
        return " ".join(part for part in parts if part)

    def filter(self, where: str, folder: str) -> str:
        """Return the command that writes the samples that a predicate keeps into a folder."""
        words = ["wdsflow filter", *map(quote_path, compact(self.urls, _NAMED)), "-o", quote_path(folder)]
        return " ".join([*words, command(["--where", where, *self._allowed()])])

    def _allowed(self) -> list[str]:
        pipes = any("pipe:" in url or url.startswith("@") for url in self.urls)
        return ["--allow-pipe"] if self.allow_pipe and pipes else []


def train_data(training: Sequence[str]) -> str | None:
    """Return the shards that a training command reads."""
    for number, word in enumerate(training):
        flag, equals, value = word.partition("=")
        if flag == "--train-data" and (equals or training[number + 1 :]):
            return value if equals else training[number + 1]
    return None


def with_flags(training: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return the training command with changed or new flags."""
    valued = {name: bool(value) for name, *value in paired_flags(flags)}
    words, skip = list[str](), False
    for word in training:
        if skip and not word.startswith("--"):
            skip = False
            continue
        skip = valued.get(word, False)
        if not skip and word.partition("=")[0] not in valued:
            words.append(word)
    return [*words, *flags]


def paired_flags(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each flag with its values: ``[("--workers", "2"), ("--dataset-resampled",)]``."""
    borders = [*(index for index, word in enumerate(words) if word.startswith("--")), len(words)]
    return [tuple(words[start:end]) for start, end in pairwise(borders)]


def merged_flags(flags: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return flags with those of others, which win."""
    found = {each[0]: each for each in (*paired_flags(flags), *paired_flags(others))}
    return tuple(word for each in found.values() for word in each)


def settle(
    findings: Sequence[Finding], advice: Sequence[Advice], invocation: Invocation
) -> tuple[list[Finding], list[Advice]]:
    """Write the commands of findings and advice: each can be pasted, alone or after the others, into a new folder."""
    folders, filtered = _free_folders("repaired"), _free_folders("filtered")
    all_options = dict.fromkeys(each.options for each in advice if each.options is not None)
    repairs = {options: invocation.repair(options, next(folders)) for options in all_options}

    def written(each: Advice) -> Advice:
        if each.reads_on:
            return replace(each, command=invocation.read_on())
        if each.options is not None:
            return replace(each, command=repairs[each.options])
        again = each.flags and invocation.training is not None
        return replace(each, command=invocation.with_training(each.flags)) if again else each

    wheres = dict.fromkeys(each.repair.where for each in findings if each.repair is not None and each.repair.where)
    filters = {where: invocation.filter(where, next(filtered)) for where in wheres}

    def settled(repair: Repair) -> Repair:
        if repair.flags:
            return replace(repair, command=invocation.with_training(repair.flags))
        return replace(repair, command=filters[repair.where]) if repair.where else repair

    done = [each if each.repair is None else replace(each, repair=settled(each.repair)) for each in findings]
    return done, [written(each) for each in advice]


def _free_folders(base: str) -> Iterator[str]:
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        if not os.path.lexists(name):
            yield name
