"""The repair that lets most samples of a set through."""

from collections.abc import Iterable
from dataclasses import replace

from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.evidence import Evidence
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.urls import expand_existing

from .advice.repair_choice import choose_repair, cost_text
from .advice.repair_forecast import RepairForecast
from .check_options import CheckOptions
from .chosen_readers import level_for, readers_of
from .verdicts.judge import judge


def plan_repair(
    urls: str | Iterable[str], readers: Iterable[str] = ("open-clip",), *, allow_pipe: bool = False
) -> RepairPlan:
    """Return the repair after which most samples of these shards reach a batch, without a loss.

    Args:
        urls: shards, as for ``check``.
        readers: names of the readers to repair for, as for ``check``.
        allow_pipe: run ``pipe:`` urls in a shell.

    Raises:
        NoShards, UnknownReader: no such shards, no such reader.
    """
    named = tuple(readers)
    options = CheckOptions(readers=named, allow_pipe=allow_pipe)
    shards = expand_existing(urls, allow_pipe=allow_pipe)
    level = level_for(options, shards)
    chosen, scan = readers_of(options, level, shards)
    scan = replace(scan, allow_pipe=allow_pipe)
    evidence = Evidence(level, scan_shards(shards, scan))
    repair = choose_repair(RepairForecast(evidence, chosen, scan, scan_shards))
    # Lower-case names of fields alone may cost a reader samples: it ignores ``PNG``, but decodes
    # ``png``, and fails on bad data.
    before = [judge(evidence, reader) for reader in chosen]
    return replace(repair.plan, readers=named, costs=cost_text(before, repair.after))
