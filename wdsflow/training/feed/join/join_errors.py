"""Joins that a feed refuses, with the commands that help."""

from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.training.feed_options import FeedOptions, JoinError
from wdsflow.training.stalls.field_fixes import command


def refused_join(error: JoinMismatch, options: FeedOptions) -> JoinError:
    """Return the error of a feed with these options."""
    lines = [str(error)]
    if error.is_ambiguous:
        each = command(options, join_ambiguous="each")
        lines.append(f"To give each of the samples the first row: {each}")
    if error.others:
        on = options.join_on.partition("=")[0]
        lines.append("To fix it, if another column has these values:")
        lines += [f"  {command(options, join_on=f'{on}={column}')}" for column in error.others]
    return JoinError("\n".join(lines))
