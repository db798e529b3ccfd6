"""The arguments of ``check`` as commands to paste: the same with another argument, or a repair."""

from collections.abc import Iterable, Sequence
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
        words = self._readers(self.readers)
        words += ["--pipeline", self.pipeline or "", "--level", "full", *self._allowed()]
        return " ".join(["wdsflow validate", *self._shards(), command(words)])

    def with_training(self, flags: Sequence[str]) -> str:
        """Return the command that judges the same shards for another value of a flag of the training command."""
        training = with_flags(self.training or (), flags)
        data = train_data(training)
        # OpenCLIP is judged in any case.
        words = self._readers(name for name in self.readers if name != "open-clip")
        if self.level != "auto":
            words += ["--level", self.level]
        if self.world_size > 1:
            words += ["--world-size", str(self.world_size)]
        words += ["--allow-pipe"] if (data or "").startswith(PIPE) else self._allowed()
        shards = self._shards()
        if len(self.urls) == 1 and self.urls[0] in (data, train_data(self.training or ())):
            # The training command names them.
            shards = []
        return " ".join(["wdsflow validate", *shards, command([*words, "--", *training])])

    def repair(self, options: Sequence[str], folder: str) -> str:
        """Return the command that repairs all shards into a folder."""
        words = ["wdsflow repair", *self._shards(), "-o", quote_path(folder)]
        options = [*self._allowed(), *options]
        return " ".join([*words, command(options)] if options else words)

    def filter(self, where: str, folder: str) -> str:
        """Return the command that writes the samples that a predicate keeps into a folder."""
        words = ["wdsflow filter", *self._shards(), "-o", quote_path(folder)]
        return " ".join([*words, command(["--where", where, *self._allowed()])])

    def _shards(self) -> list[str]:
        return list(map(quote_path, compact(self.urls, _NAMED)))

    @staticmethod
    def _readers(names: Iterable[str]) -> list[str]:
        words: list[str] = []
        for name in names:
            words += ["--for", name]
        return words

    def _allowed(self) -> list[str]:
        pipes = any("pipe:" in url or url.startswith("@") for url in self.urls)
        return ["--allow-pipe"] if self.allow_pipe and pipes else []
