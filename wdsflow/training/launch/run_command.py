"""The command of this run, with other flags of the training command."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.stalls.field_fixes import rerun_command
from wdsflow.validate.advice.invocation import Invocation
from wdsflow.validate.advice.training_flags import flags_with_values, with_flags


@dataclass(frozen=True)
class RunCommand(Invocation):
    """The command of this run; its settings can be checked with other flags."""

    options: FeedOptions = field(default_factory=FeedOptions)

    def command_with_training_flags(self, flags: Sequence[str]) -> str:
        """Return the command that checks the shards with other flags of the training command."""
        return rerun_command(with_training_flags(self.options, flags), "--dry-run")


def with_training_flags(options: FeedOptions, flags: Sequence[str]) -> FeedOptions:
    """Return options with further flags of the training command.

    The feed's own options take precedence.
    """
    for name, *value in flags_with_values(flags):
        if name == "--image-key":
            options = replace(options, image=value[0])
        elif name == "--text-key":
            options = replace(options, caption=value[0])
        else:
            options = replace(options, argv=tuple(with_flags(options.argv, (name, *value))))
    return options
