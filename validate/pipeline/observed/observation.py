"""The numbers of one run of the user's pipeline.

They are what was read, what came out, and what was lost on the way.

The counts of the stages are in ``run``. They are compared with the shards here: with the keys of
the samples where these are visible, otherwise with their contents.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from wdsflow.scan.evidence import Evidence

from ...verdicts.pipeline_run import PipelineRun
from ..run.observed_run import ObservedRun
from .output_content import OutputContent
from .sample_keys import SampleKeys
from .stage_losses import StageLoss, losses_of


class _Judged(NamedTuple):
    """What the verdict is about, in samples."""

    total: int
    # Of these, as far as counts and keys show it.
    came_out: int


@dataclass(frozen=True)
class Observation:
    """One run, with its numbers.

    Each number is computed from the reports and lists of the run when it is first needed.
    """

    evidence: Evidence
    run: ObservedRun
    keys: SampleKeys
    content: OutputContent
    urls: tuple[str, ...]
    # Shards that were seen to be opened.
    listed_as_opened: set[str]
    # Share of samples, 0 to 1.
    max_loss: float = 0.05
    # Columns of the output, see ``copies_run``.
    single_valued: frozenset[str] = frozenset()

    # What the verdict is about.

    @property
    def total(self) -> int:
        """Samples that the verdict is about."""
        return self._judged.total

    @cached_property
    def usable(self) -> int:
        """The number of these samples that came out, at most.

        Each element may be a sample, unless it repeats the content of others.
        """
        total, came_out = self._judged
        if self.run.read is None and self.run.ended_by != "itself" and not self.is_in_order:
            # All that is known is what came out.
            return came_out
        if self.content.replaced:
            different = self.delivered + self.run.combined - self.content.replaced
            return max(0, min(came_out, different))
        if self.has_keys or came_out >= total:
            return came_out
        # An element may hold several samples, such as those
        # of two datasets that are read side by side.
        return min(total, max(came_out, self.content.proven_samples()))

    @cached_property
    def least_usable(self) -> int:
        """Samples that certainly came out."""
        if self.content.replaced_is_minimum and not self.is_enough(self.usable):
            return 0
        if self.is_followed and not self._is_doubtful:
            return self.usable
        return min(self.usable, self.content.proven_samples(self.single_valued))

    def is_enough(self, samples: int) -> bool:
        """Return whether no more than the accepted share is lost if so many samples came out."""
        total = self.total - self.in_buffers
        return samples > 0 and total - samples <= self.max_loss * total

    @cached_property
    def is_followed(self) -> bool:
        """Whether it is visible which samples came out.

        Their keys show it, or the code of all stages is known.
        """
        if self.run.combined:
            return False
        if self.has_keys and not self.without_key:
            return True
        return self.run.read is not None and all(stage.is_followed for stage in self.run.stages)

    @cached_property
    def is_in_order(self) -> bool:
        """Whether the samples that came out are known, and were read in the order of the shards."""
        return self.has_keys and self.keys.in_order()

    @cached_property
    def _is_doubtful(self) -> bool:
        """Whether the content of the output repeats more than that of the shards.

        Keys and stages do not show why.
        """
        return self.content.is_doubtful(self.max_loss)

    @cached_property
    def _judged(self) -> _Judged:
        if self.run.read is not None:
            total = self.run.read + self._unread
            return _Judged(total, min(self._delivered_once, total))
        if self.run.ended_by == "itself":
            return _Judged(self.evidence.samples, self._came_out_of_own_code())
        if self.is_in_order:
            return _Judged(self.keys.samples_until_last(), self._delivered_once)
        return _Judged(self.delivered, self.delivered)

    def _came_out_of_own_code(self) -> int:
        """Return how many samples came out of code that has no stages, and ended by itself."""
        most = self.evidence.samples
        if self.sees_shards:
            most = sum(shard.samples for shard in self.evidence.shards if shard.url in self.opened)
        repeated = 0 if self.has_keys else self.repeated or 0
        return min(self._delivered_once - repeated, most)

    # What was read.

    @cached_property
    def opened(self) -> set[str]:
        """The shards that were opened, as far as is visible."""
        return self.listed_as_opened | (self.keys.shards & set(self.urls))

    @cached_property
    def sees_shards(self) -> bool:
        """Whether it is visible which shards are opened."""
        return bool(self.opened) or any(_is_local(url) for url in self.urls)

    @cached_property
    def _unread(self) -> int:
        """Samples of the shards that the pipeline did not read, although it ended by itself."""
        if self.run.ended_by != "itself" or self.run.draws_shards or self.run.read is None:
            return 0
        all_have_keys = self.keys.entered.total() == self.run.read
        different = len(self.keys.entered) if all_have_keys else self.run.read
        return max(0, self.evidence.samples - different)

    # What came out.

    @cached_property
    def has_keys(self) -> bool:
        """Whether it is visible which samples came out, for elements that have a key."""
        return self.run.main is not None and self.keys.identifies_samples

    @property
    def without_key(self) -> int:
        """Elements that came out, in which no key is visible, while others have one."""
        if self.run.main is None or not self.has_keys:
            return 0
        return self.run.main.without_key

    @cached_property
    def delivered(self) -> int:
        """Samples that came out, or elements if nothing shows how many samples these hold."""
        return len(self.keys.delivered) if self.has_keys else self.run.delivered

    @cached_property
    def repeated(self) -> int | None:
        """The number of samples that had come before; None if that is not visible.

        It counts the samples that were read, otherwise those that came out.
        """
        is_visible = self.keys.entered or self.keys.items or self.has_keys
        return self.keys.repeated() if is_visible else None

    @cached_property
    def _delivered_once(self) -> int:
        """The number of samples that came out, without repeats.

        A sample counts at most as often as it entered. It may come out within the element of
        another.
        """
        delivered = self.keys.delivered_once() if self.has_keys else self.delivered
        return delivered + self.run.combined

    # What did not come out.

    @cached_property
    def losses(self) -> list[StageLoss]:
        """The losses of all stages."""
        return losses_of(self.run, missing=self._judged.total - self._judged.came_out)

    @cached_property
    def lost(self) -> int:
        """Samples that stages lost."""
        return sum(loss.samples for loss in self.losses)

    @property
    def replaced(self) -> int:
        """Samples in whose place others came out again, of those that no stage has lost."""
        not_usable = self._judged.came_out - self.usable
        not_lost = self.total - self.usable - self.lost
        return max(0, min(not_usable, not_lost))

    @property
    def in_buffers(self) -> int:
        """The number of samples in a buffer or batch when a limit ended the run.

        They are neither lost nor out.
        """
        return self._unaccounted if self.run.is_limited else 0

    @property
    def unexplained(self) -> int:
        """The number of samples that neither came out nor were lost by a stage.

        They entered a pipeline that ended by itself.
        """
        ended_by_itself = self.run.ended_by == "itself" and not self.run.stage_ended_early
        if not ended_by_itself or self.run.read is None or not self.run.stages[-1].ended:
            return 0
        return self._unaccounted

    @cached_property
    def _unaccounted(self) -> int:
        """Samples that entered, and neither came out nor were lost by a stage."""
        return max(0, (self.run.read or 0) - self._delivered_once - self.lost)

    def summary(self) -> PipelineRun:
        """Return the numbers for reports."""
        shards = len(self.keys.shards & self.opened) or len(self.opened)
        return PipelineRun(
            ended_by=self.run.ended_by,
            read=self.run.read,
            delivered=self.delivered,
            repeated=self.repeated,
            shards=shards if self.sees_shards else None,
            of_shards=len(self.evidence.shards),
            stages=tuple(self.run.stages),
        )


def _is_local(url: str) -> bool:
    return "://" not in url and not url.startswith("pipe:") and os.path.exists(url)
