"""Makes the views of the samples of a shard, after the stages of a recipe."""

from collections.abc import Sequence

from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.stages.base import SampleStage
from wdsflow.stages.scores.sample_fields import FieldNames, chosen_fields, parse_captions
from wdsflow.stages.scores.sample_view import ViewOptions

from .shard_view import Chosen, ShardView
from .staging import Staging
from .tar_fields import TarFields

_GENERAL: Chosen = None, None
# Sets of field names whose choice is cached.
_MOST_CACHED = 10_000


class Views:
    """Makes the views of a shard's samples."""

    def __init__(
        self, samples: Samples, options: ViewOptions, url: str, stages: Sequence[SampleStage] = ()
    ) -> None:
        self._samples, self._options, self._url = samples, options, url
        self._staging = Staging(stages, samples, url) if stages else None
        self._captions = parse_captions(options.captions)
        self._cached: dict[tuple[str, ...], tuple[tuple[str, ...], Chosen]] = {}
        # Of the latest sample.
        self._last: tuple[tuple[str, ...], Chosen] = (), _GENERAL

    def fields_of(self, sample: TarSample) -> tuple[str, ...]:
        """Return the names of a sample's fields; the same tuple for the same names."""
        return self._names_and_choice(sample)[0]

    def view(self, sample: TarSample) -> ShardView:
        """Return the view of the latest sample, after the stages. Raises RejectedSample."""
        if self._staging is not None:
            staged = TarFields(self._samples, sample, self._staging.fields(sample))
            return ShardView(staged, _GENERAL, self._options, sample.key, self._url)
        return ShardView(
            TarFields(self._samples, sample),
            self._names_and_choice(sample)[1],
            self._options,
            sample.key,
            self._url,
        )

    def _names_and_choice(self, sample: TarSample) -> tuple[tuple[str, ...], Chosen]:
        """Return the names of a sample's fields, and its only image and caption."""
        names = sample.names or tuple(sample.fields)
        if names is self._last[0]:
            return self._last
        entry = self._cached.get(names)
        if entry is None:
            entry = names, self._choice(names)
            if len(self._cached) < _MOST_CACHED:
                self._cached[names] = entry
        self._last = entry
        return entry

    def _choice(self, names: tuple[str, ...]) -> Chosen:
        """Return the only image and the only caption of a sample with these fields."""
        images = chosen_fields(self._options.names, names)
        first = self._captions[0]
        captions = chosen_fields(first, names) if isinstance(first, FieldNames) else ()
        image = images[0] if len(images) == 1 else None
        caption = captions[0] if len(captions) == 1 else None
        return image, caption
