"""Samples that a stage yields more often than it got them, by their keys."""

# Keys of each stage, with and without the shard.
_MOST_KEYS = 200_000

# A key, or a shard and a key.
_Name = str | tuple[str, str]


class FollowedKeys:
    """The keys that stages have got, and not yielded yet."""

    def __init__(self) -> None:
        # Of each stage: how often it got a sample, by its key and by its shard and key, less how
        # often it yielded it.
        self._counts: dict[int, dict[_Name, int]] = {}

    def note_yielded(self, index: int, key: str, shard: object) -> tuple[bool, bool]:
        """Note that a stage yields a sample, which the next one gets.

        Args:
            index: of the stage.
            key: of the sample.
            shard: its url; anything else if a stage has left it out.

        Returns:
            Whether the stage has got a sample of this key, otherwise it has made the key itself;
            and whether it has yielded the sample as often before as it got it.
        """
        inputs = self._counts.get(index, {})
        next_inputs = self._counts.setdefault(index + 1, {})
        names: list[_Name] = [key]
        # Shards may have the same keys, and a stage may leave out the shard.
        if isinstance(shard, str):
            names.append((shard, key))
        is_repeated = False
        for name in names:
            if name in inputs:
                # The last one, with the shard, decides.
                is_repeated = inputs[name] < 1
                inputs[name] = max(0, inputs[name] - 1)
            if name in next_inputs or len(next_inputs) < _MOST_KEYS:
                next_inputs[name] = next_inputs.get(name, 0) + 1
        return key in inputs, is_repeated
