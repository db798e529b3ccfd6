"""``wdsflow explain``: the manual page of a rule, or the list of all rules."""

import sys
from dataclasses import dataclass

from wdsflow.cli.shared.printing import console
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.typed import Typed
from wdsflow.text.options import argument
from wdsflow.text.words import without_markup


@dataclass(frozen=True)
class ExplainOptions:
    """A rule."""

    code: str | None = argument("[CODE]", "A code such as W006.")


def explain(_: Typed, options: ExplainOptions) -> None:
    """Explain a rule, or list all rules.

    The page explains what is wrong, why it matters, how it occurs in practice and how to fix it.
    """
    from wdsflow.validate.catalog.manual_pages import explain as page
    from wdsflow.validate.catalog.rule_catalog import BadRule, UnknownCode, rule_list

    try:
        if options.code is not None:
            sys.stdout.write(without_markup(page(options.code.strip().upper())).rstrip() + "\n")
            return
        rules = rule_list()
    except UnknownCode as error:
        refuse(str(error), "all codes: wdsflow explain")
    except BadRule as error:
        refuse(str(error))
    from rich.text import Text

    out = console()
    for name, severity, title in rules:
        out.print(Text.assemble((name, "bold"), f"  {severity:<8} ", title), soft_wrap=True)
