from collections.abc import Iterator

from wdsflow.readers.installed_versions import conflicts
from wdsflow.text.shell import Command

from ...finding import Finding, Repair
from ..kit.base import Context, Rule
from ..kit.training_rule import clips


class Versions(Rule):
    """Installed versions are known not to work together.

    What: two packages of this environment fail together as soon as training starts, whatever the shards are.

    Why it matters: OpenCLIP up to 4.2 with webdataset 0.2.95 or later ends with "KeyError: 'fname'" at the end of the first
    shard: webdataset marks it with an empty entry that OpenCLIP's grouping does not know. A torchvision built for
    another torch fails on import. Python 3.14 starts loader workers in a way for which OpenCLIP 3.3's pipeline cannot
    be pickled.

    In practice: open_clip#935, webdataset#384, UniMed-CLIP#2, dclm#62, gigapose#26, open_lm PR#302.

    Fix: the command in the finding. ``wdsflow doctor`` checks more than versions.
    """

    code = "P311"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        names = clips(context)
        if not names:
            return
        for conflict in conflicts(context.environment):
            # Shards are often validated on machines that never train: it is an error only with a training command.
            severity = conflict.severity if context.arguments is not None else "warning"
            fix = Repair(conflict.fix) if isinstance(conflict.fix, Command) else None
            yield Finding(self.code, severity, f"{conflict.versions}: {conflict.why}", readers=names, repair=fix)
