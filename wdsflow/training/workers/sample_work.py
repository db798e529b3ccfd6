"""The work of a decoder: reads members, decodes and transforms images, and tokenizes captions.

Imports torch in functions only, because spawned processes import this module first.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.shards.caption_field import LARGEST
from wdsflow.stages.base import Dropped, StageError
from wdsflow.stages.tokenizer_contract import CaptionFailure, TokenizerError
from wdsflow.training.columns import FeedColumns
from wdsflow.training.feed_options import SampleError
from wdsflow.training.pixels.image_work import ImageWork, TransformError
from wdsflow.training.sample_tasks import MadeSample, Task
from wdsflow.training.stalls.hanging import samples_text
from wdsflow.training.stalls.loss_tally import FeedLoss
from wdsflow.training.tokenized_captions import TokenizedCaptions

from .sample_members import OpenShards, read_members
from .user_code import code_failure

# Characters of an error that a loss keeps.
_DETAIL = 300


@dataclass(frozen=True)
class SampleWork:
    """Makes the samples of one source. Thread-safe and picklable.

    ``images``: None if samples have none. ``largest``: bytes of an encoded image. ``processes``:
    the user's name of the number of decoding processes. ``join``: gives samples fields of a table.
    """

    images: ImageWork | None
    columns: FeedColumns
    tokens: TokenizedCaptions
    largest: int
    processes: str = 'args["workers"]'
    join: JoinedFields | None = None
    shards: OpenShards = field(default_factory=OpenShards, compare=False, repr=False)
    hold: Callable[[int], AbstractContextManager[None]] | None = field(
        default=None, compare=False, repr=False
    )

    def __reduce__(self) -> Any:
        # Open files and a budget of threads stay in their process.
        join = None if self.join is None else self.join.for_decoders()
        made = self.images, self.columns, self.tokens, self.largest, self.processes, join
        return SampleWork, made

    def make(self, task: Task) -> MadeSample | FeedLoss:
        """Return the sample of a task with its caption as text, or why it is lost.

        Raises SampleError.
        """
        ref, columns = task.ref, self.columns
        stage = "read"
        try:
            data, members = read_members(ref, self.shards, self.largest, self._most_bytes)
            if self.join is not None and ref.row >= 0:
                stage = "join"
                self.join.check_sample(ref.row, data, members)
                members = self.join.joined_members(ref.row, members, self._most_bytes)
            if columns.map is not None:
                stage = "map"
                return MadeSample(
                    None, "", (columns.map_sample(ref.key, ref.shard, members, task.seed),)
                )
            stage = "caption"
            text = "" if columns.captions is None else columns.captions.read(ref.key, members)
            stage = "member"
            more = columns.other_values(ref.key, ref.shard, members)
            stage = "decode"
            image = None if self.images is None else self.images.run(data, task.seed, self.hold)
            return MadeSample(image, text, more)
        except Dropped as drop:
            return FeedLoss(stage, drop.reason, ref.key, ref.shard)
        except StageError as error:
            return FeedLoss(stage, error.slug, ref.key, ref.shard, str(error)[:_DETAIL])
        except MemoryError as error:
            return FeedLoss(stage, "out-of-memory", ref.key, ref.shard, str(error)[:_DETAIL])
        except TransformError as error:
            code = "map" if stage == "map" else "the image transform"
            raise code_failure(code, [task], error, self.processes) from error
        except Exception as error:
            raise RuntimeError(
                f"wdsflow failed ({stage}) at {samples_text([task])}: {type(error).__name__}: {error}. This is a fault of wdsflow: "
                "please report it with this traceback"
            ) from error

    def tokenize(self, tasks: Sequence[Task]) -> None:
        """Replace the captions of made samples by their rows of tokens. Raises SampleError."""
        texts = [str(task.made.text) for task in tasks]
        try:
            rows = self.tokens(texts)
        except TokenizerError as error:
            raise SampleError(str(error)) from error.__cause__
        except CaptionFailure as failure:
            cause = failure.__cause__
            assert cause is not None
            alone = [
                task
                for task, text in zip(tasks, texts, strict=True)
                if [text] == list(failure.texts)
            ]
            code = "the tokenizer" if alone else "the tokenizer, for several captions at once,"
            raise code_failure(code, alone[:1] or tasks, cause, self.processes) from cause
        for task, row in zip(tasks, rows, strict=True):
            task.result = task.made._replace(text=row)

    def _most_bytes(self, field: str) -> int:
        """Return the most bytes of a field: those of captions are small."""
        captions = self.columns.captions
        return LARGEST if captions is not None and field in captions.members else self.largest


@dataclass(frozen=True)
class ChunkWork:
    """Makes the samples of a chunk, each by the work of its source."""

    sources: tuple[SampleWork, ...]

    def __call__(self, tasks: Sequence[Task], note: Callable[[int], None]) -> None:
        """Set the results of all tasks. Raises SampleError.

        ``note`` is called with the number of each task before it is begun, and with the number of
        tasks before the captions are tokenized.
        """
        for number, task in enumerate(tasks):
            note(number)
            task.result = self.sources[task.stream.source].make(task)
        made = [task for task in tasks if isinstance(task.result, MadeSample)]
        for source, group in groupby(made, lambda task: task.stream.source):
            work = self.sources[source]
            if work.columns.captions is not None:
                note(len(tasks))
                work.tokenize(list(group))

    def close(self) -> None:
        """Close all shards that are not in use."""
        for work in self.sources:
            work.shards.close()
