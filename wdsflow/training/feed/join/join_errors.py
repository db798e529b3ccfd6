"""Joins that a feed refuses, with the commands that help."""

from collections.abc import Iterator

from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.joining.join_fixes import (
    ChangedOptions,
    mismatch_fixes,
    nearest_column,
    nearest_options,
)
from wdsflow.table_files.errors import NoColumn, TableError
from wdsflow.text.secrets import redact
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.stalls.field_fixes import command, requested_captions


def refused_join(error: JoinMismatch, options: FeedOptions) -> JoinError:
    """Return the error of a feed whose samples and rows do not match."""
    fixes = mismatch_fixes(error, options.join_on)
    commands = [f"  to {fix.action}: {command(options, **fix.changed)}" for fix in fixes]
    return JoinError("\n".join([str(error), *commands]))


def refused_table(error: TableError, options: FeedOptions) -> JoinError:
    """Return the error of a feed whose table cannot be read."""
    lines = [str(error), *error.advice, *_nearest(error, options)]
    return JoinError(redact("\n  ".join(lines)))


def _nearest(error: TableError, options: FeedOptions) -> Iterator[str]:
    """Yield the command with a table, or a column, of a similar name."""
    changed: ChangedOptions = nearest_options(error, options.join_on, tuple(options.join_set))
    captions = requested_captions(options)
    column = nearest_column(error)
    if column and captions is not None and "join_on" not in changed:
        assert isinstance(error, NoColumn)
        if error.column in captions.joined_columns:
            changed["caption"] = str(captions.with_column(error.column, column))
    if changed:
        yield f"such as: {command(options, **changed)}"
