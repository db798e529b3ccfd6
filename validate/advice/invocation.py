"""The arguments of ``check`` as commands to paste: the same with another argument, or a repair."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.shards.shard import PIPE
from wdsflow.shards.written_names import compact
from wdsflow.text.shell import command, quote_path

from .training_flags import train_data, with_flags

# Shards that a command lists individually.
_NAMED = 4


@dataclass(frozen=True)
class Invocation:
    """The arguments of ``wdsflow validate`` that matter for running it again."""

    # As the user wrote them.
    urls: tuple[str, ...]
    readers: tuple[str, ...] = ()
    level: str = "auto"
    # Words for open_clip_train.
    training: Sequence[str] | None = None
    world_size: int = 1
    allow_pipe: bool = False
    pipeline: str | None = None

    def read_on(self) -> str:
        """Return the command that runs the pipeline over all samples."""
        words = [word for name in self.readers for word in ("--for", name)]
        words += ["--pipeline", self.pipeline or "", "--level", "full", *self._allowed()]
        return " ".join(
            ["wdsflow validate", *map(quote_path, compact(self.urls, _NAMED)), command(words)]
        )

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
        return " ".join(
            ["wdsflow validate", *map(quote_path, urls), command([*words, "--", *training])]
        )

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
        words = [
            "wdsflow filter",
            *map(quote_path, compact(self.urls, _NAMED)),
            "-o",
            quote_path(folder),
        ]
        return " ".join([*words, command(["--where", where, *self._allowed()])])

    def _allowed(self) -> list[str]:
        pipes = any("pipe:" in url or url.startswith("@") for url in self.urls)
        return ["--allow-pipe"] if self.allow_pipe and pipes else []
