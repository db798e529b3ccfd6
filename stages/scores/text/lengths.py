"""The lengths of n-grams."""

_LONGEST = 50


def checked(name: str, n: int) -> None:
    """Raise ValueError if ``n`` is no length of an n-gram."""
    if not 1 <= n <= _LONGEST:
        raise ValueError(f"{name}: n={n!r} must be a length from 1 to {_LONGEST}")
