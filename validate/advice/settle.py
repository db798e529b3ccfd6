"""Writes the commands of findings and advice, by how wdsflow was called."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from ..finding import Advice, Finding, Repair
from .invocation import Invocation


def settle(
    findings: Sequence[Finding], advice: Sequence[Advice], invocation: Invocation
) -> tuple[list[Finding], list[Advice]]:
    """Write the commands of findings and advice: each can be pasted, alone or after the others, into a new folder."""
    folders, filtered = _free_folders("repaired"), _free_folders("filtered")
    all_options = dict.fromkeys(each.options for each in advice if each.options is not None)
    repairs = {options: invocation.repair(options, next(folders)) for options in all_options}

    def written(each: Advice) -> Advice:
        if each.reads_on:
            return replace(each, command=invocation.read_on())
        if each.options is not None:
            return replace(each, command=repairs[each.options])
        again = each.flags and invocation.training is not None
        return replace(each, command=invocation.with_training(each.flags)) if again else each

    wheres = dict.fromkeys(
        each.repair.where for each in findings if each.repair is not None and each.repair.where
    )
    filters = {where: invocation.filter(where, next(filtered)) for where in wheres}

    def settled(repair: Repair) -> Repair:
        if repair.flags:
            return replace(repair, command=invocation.with_training(repair.flags))
        return replace(repair, command=filters[repair.where]) if repair.where else repair

    done = [
        each if each.repair is None else replace(each, repair=settled(each.repair))
        for each in findings
    ]
    return done, [written(each) for each in advice]


def _free_folders(base: str) -> Iterator[str]:
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        if not os.path.lexists(name):
            yield name
