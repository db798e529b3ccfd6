"""Keeps secrets of ``--train-data`` and ``--val-data`` out of the arguments OpenCLIP records."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wdsflow.text.secrets import redact

from .replaced_names import replace_name

if TYPE_CHECKING:
    from .resume import GetData

_NAMES = ("train_data", "val_data")


class DataArguments:
    """The data arguments of a run of open_clip_train.main, which gets them redacted.

    It writes all its arguments to ``out.log`` and ``params.txt``, and sends them to Weights &
    Biases. Of these two it uses only whether they are given: the feed opens the shards.
    """

    def __init__(self) -> None:
        self._exact: dict[str, str] = {}

    @contextmanager
    def redacted(self, main: ModuleType) -> Iterator[None]:
        """Give ``main`` redacted data arguments for the time of a block."""
        original: Callable[[Sequence[str]], Namespace] = main.parse_args

        def parse_args(argv: Sequence[str]) -> Namespace:
            args = original(argv)
            for name in _NAMES:
                value = getattr(args, name)
                if isinstance(value, str):
                    self._exact[name] = value
                    setattr(args, name, redact(value))
            return args

        with replace_name(main, "parse_args", parse_args):
            yield

    def with_given_arguments(self, get_data: "GetData") -> "GetData":
        """Return ``get_data`` with the arguments as they were given."""

        def exact(args: Namespace, *rest: object, **named: object) -> dict[str, Any]:
            return get_data(Namespace(**{**vars(args), **self._exact}), *rest, **named)

        return exact
