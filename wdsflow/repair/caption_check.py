"""Checks whether a repair would take captions from json.

The other steps of the repair are applied first, because names of fields may be right only after
them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from wdsflow.shards.shard import Shard
from wdsflow.shards.short_look import spread_selection

from .borders import UNMOVED
from .preview import Preview
from .repair_plan import RepairPlan

# What is looked at: about so many shards, spread over all of them, and members of each.
_SHARDS = 5
_MEMBERS = 1_000


def takes_captions(urls: Sequence[Shard], plan: RepairPlan, *, allow_pipe: bool = False) -> bool:
    """Return whether some of the first samples of some shards get a caption from json by a plan.

    Shards that cannot be read, and pipes, which can be read once only, are passed over.
    """
    # The other steps decode images, and change no caption.
    plan = replace(plan, rename_bad=(), drop_fields=(), drop_bad=False)
    step = next(step.option for step in plan.steps() if step.words[0] == "--caption")
    some = spread_selection(urls)
    for url in some[:: max(1, len(some) // _SHARDS)]:
        if url.is_pipe:
            continue
        try:
            with Preview(url, UNMOVED, plan, allow_pipe=allow_pipe) as preview:
                for _ in islice(preview.members(), _MEMBERS):
                    if preview.report.applied[step]:
                        return True
        except OSError:
            continue
    return False
