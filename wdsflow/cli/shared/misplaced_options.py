"""Options of open_clip_train that were typed before ``--``: the corrected command."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import click

from wdsflow.text.shell import command

# Similarity of a mistyped option of open_clip_train.
_SURE = 0.75


def refuse_misplaced(
    parameters: Sequence[click.Parameter], ctx: click.Context, args: Sequence[str]
) -> None:
    """Raise UsageError if options of open_clip_train are before ``--``, with the corrected command.

    Args:
        parameters: those of the command.
        ctx: its ``obj`` are the words after ``--``, or None.
        args: the words before ``--``.
    """
    if ctx.info_name not in ("train", "validate"):
        return
    takes_value: dict[str, bool] = {}
    for parameter in parameters:
        if isinstance(parameter, click.Option):
            takes_value |= dict.fromkeys(parameter.opts, not parameter.is_flag)
    names = [word.partition("=")[0] for word in args if word.startswith("--")]
    foreign_names = [name for name in names if name not in takes_value]
    if not foreign_names:
        return
    # Imports the parser of OpenCLIP, which takes time.
    from wdsflow.readers.open_clip.arguments import known_flags, nearest_flag

    flags = known_flags() - takes_value.keys()
    candidates = [*flags, *takes_value]
    # The nearest to a flag is itself.
    intended = {name: nearest_flag(name, candidates, _SURE) for name in foreign_names}
    words = _sort_words(args, takes_value, intended, flags)
    if not words.after_dashes:
        return
    corrected = [
        "wdsflow",
        str(ctx.info_name),
        *words.before_dashes,
        "--",
        *words.after_dashes,
        *(ctx.obj or ()),
    ]
    ctx.fail(
        f"{_problem(foreign_names, intended, flags, words.after_dashes)}\n  {command(corrected)}"
    )


class _Words(NamedTuple):
    """The words of a corrected command, before and after ``--``."""

    before_dashes: list[str]
    after_dashes: list[str]


def _sort_words(
    args: Sequence[str],
    takes_value: Mapping[str, bool],
    intended: Mapping[str, str],
    flags: AbstractSet[str],
) -> _Words:
    """Assign each word to wdsflow or to open_clip_train; values follow their options.

    Args:
        args: the words.
        takes_value: the options of the command, and whether a value follows.
        intended: the other options, and which one is meant.
        flags: the options of open_clip_train.
    """
    words = _Words([], [])
    # Where the value of the last option goes; None if the next word is no value of it.
    target: list[str] | None = None
    for word in args:
        name, equals, value = word.partition("=")
        if intended.get(name) in flags:
            # Of open_clip_train it is not asked whether a flag takes values: all words up to the
            # next option follow it.
            target = words.after_dashes
            target.append(f"{intended[name]}{equals}{value}")
            continue
        if name in takes_value or target is None:
            target = words.before_dashes
        target.append(word)
        expects_value = takes_value.get(name, False) and not equals
        if target is words.before_dashes and not expects_value:
            target = None
    return words


def _problem(
    foreign_names: Sequence[str],
    intended: Mapping[str, str],
    flags: AbstractSet[str],
    after_dashes: Sequence[str],
) -> str:
    for name in foreign_names:
        meant = intended[name]
        if meant in flags and meant != name:
            return f"no such option: {name}; did you mean {meant}, after --?"
    return f"{after_dashes[0].partition('=')[0]} is an option of open_clip_train: put it after --"
