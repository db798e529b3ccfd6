"""Joins that a feed refuses, with the commands that help."""

from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.joining.join_fixes import mismatch_fixes, nearest_options
from wdsflow.table_files.errors import TableError
from wdsflow.text.secrets import redact
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.stalls.field_fixes import requested_captions, rerun_command


def mismatch_error(error: JoinMismatch, options: FeedOptions) -> JoinError:
    """Return the error of a feed whose samples and rows do not match."""
    fixes = mismatch_fixes(error, options.join_on)
    commands = [f"  to {fix.action}: {rerun_command(options, **fix.changed)}" for fix in fixes]
    return JoinError("\n".join([str(error), *commands]))


def unreadable_table_error(error: TableError, options: FeedOptions) -> JoinError:
    """Return the error of a feed whose table cannot be read.

    It suggests a table or a column with a similar name.
    """
    lines = [str(error), *error.advice]
    captions = requested_captions(options)
    changed = nearest_options(error, options.join_on, tuple(options.join_set), captions)
    if changed:
        lines.append(f"such as: {rerun_command(options, **changed)}")
    return JoinError(redact("\n  ".join(lines)))
