"""Samples that a stage yields more often than it got them, by their keys."""

# Keys of each stage, with and without the shard.
_MOST_FOLLOWED = 200_000


class FollowedKeys:
    """The keys that stages have got, and not yielded yet."""

    def __init__(self) -> None:
        # Of each stage: how often it got a sample, by its key and by its shard and key, less how often it yielded it.
        self._held: dict[int, dict[str | tuple[str, str], int]] = {}

    def passes(self, index: int, key: str, shard: object) -> tuple[bool, bool]:
        """Note that a stage yields a sample, which the next one gets.

        Args:
            index: of the stage.
            key: of the sample.
            shard: its url; anything else if a stage has left it out.

        Returns:
            Whether the stage has got a sample of this key, otherwise it has made the key itself; and whether it has yielded
            the sample as often before as it got it.
        """
        held = self._held.get(index, {})
        taken = self._held.setdefault(index + 1, {})
        # Shards may have the same keys, and a stage may leave out the shard.
        names: list[str | tuple[str, str]] = [key]
        if isinstance(shard, str):
            names.append((shard, key))
        known = [name for name in names if name in held]
        is_again = bool(known) and held[known[-1]] < 1
        for name in known:
            held[name] = max(0, held[name] - 1)
        for name in names:
            if name in taken or len(taken) < _MOST_FOLLOWED:
                taken[name] = taken.get(name, 0) + 1
        return key in held, is_again
