"""The arguments of ``check`` as commands to paste: the same with another argument, or a repair."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wdsflow.shards.shard import PIPE
from wdsflow.shards.written_names import compact_patterns
from wdsflow.text.shell import command, quote_path

from .training_flags import train_data, with_flags

# Shards that a command lists individually.
_MOST_NAMED = 4


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
    # Options of a table that is joined.
    join: tuple[str, ...] = ()

    def command_with_join(self, join: Sequence[str]) -> str:
        """Return the command with other options of the join."""
        words = [*join]
        if self.level != "auto":
            words += ["--level", self.level]
        if self.world_size > 1:
            words += ["--world-size", str(self.world_size)]
        words += self._pipe_option()
        shards = self._shards()
        if self.training is not None:
            words += ["--", *self.training]
            if len(self.urls) == 1 and self.urls[0] == train_data(self.training):
                shards = []
        return " ".join(["wdsflow validate", *shards, command(words)])

    def full_run_command(self) -> str:
        """Return the command that runs the pipeline over all samples."""
        words = _for_readers(self.readers)
        words += ["--pipeline", self.pipeline or ""]
        words += ["--level", "full"]
        words += self._pipe_option()
        return " ".join(["wdsflow validate", *self._shards(), command(words)])

    def command_with_training_flags(self, flags: Sequence[str]) -> str:
        """Return the command that judges the same shards with changed training flags."""
        training_before = self.training or ()
        training = with_flags(training_before, flags)
        data = train_data(training)
        # With a training command, OpenCLIP is judged in any case.
        words = _for_readers(name for name in self.readers if name != "open-clip")
        words += self.join
        if self.level != "auto":
            words += ["--level", self.level]
        if self.world_size > 1:
            words += ["--world-size", str(self.world_size)]
        if data is not None and data.startswith(PIPE):
            words.append("--allow-pipe")
        else:
            words += self._pipe_option()
        words += ["--", *training]
        shards = self._shards()
        if len(self.urls) == 1 and self.urls[0] in (data, train_data(training_before)):
            # The training command names them.
            shards = []
        return " ".join(["wdsflow validate", *shards, command(words)])

    def repair_command(self, options: Sequence[str], folder: str) -> str:
        """Return the command that repairs all shards into a folder."""
        words = ["wdsflow repair", *self._shards(), "-o", quote_path(folder)]
        options = [*self._pipe_option(), *options]
        if options:
            words.append(command(options))
        return " ".join(words)

    def filter_command(self, where: str, folder: str) -> str:
        """Return the command that writes the samples that a predicate keeps into a folder."""
        words = ["wdsflow filter", *self._shards(), "-o", quote_path(folder)]
        words.append(command(["--where", where, *self.join, *self._pipe_option()]))
        return " ".join(words)

    def _shards(self) -> list[str]:
        """Return the shards as words of a command, in few of them."""
        return [quote_path(url) for url in compact_patterns(self.urls, _MOST_NAMED)]

    def _pipe_option(self) -> list[str]:
        """Return the option that allows pipes, if some url is one or may be, as those in a list."""
        if not self.allow_pipe:
            return []
        if not any("pipe:" in url or url.startswith("@") for url in self.urls):
            return []
        return ["--allow-pipe"]


def _for_readers(names: Iterable[str]) -> list[str]:
    """Return the options that choose readers."""
    words: list[str] = []
    for name in names:
        words += ["--for", name]
    return words
