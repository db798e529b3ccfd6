"""The user's function, as a worker calls it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class FunctionWork:
    """Base of the work of a worker; picklable.

    Attributes:
        fn: the user's function.
        remove_columns: columns that the result does not have, unless ``fn`` returns them.
        fn_kwargs: further arguments of ``fn``.
        with_indices: whether ``fn`` also takes the row numbers.
        results: bytes of the latest results.
    """

    fn: Callable[..., Any]
    remove_columns: tuple[str, ...] = ()
    fn_kwargs: Mapping[str, object] = field(default_factory=dict)
    with_indices: bool = False
    results: int = 0
