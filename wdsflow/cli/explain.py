"""``wdsflow explain``: the manual page of a rule, or the list of all rules."""

import sys
from typing import Annotated

import typer

from wdsflow.cli.shared.terminal import console, fail
from wdsflow.text.words import without_markup


def explain(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="A code such as W006.")] = None,
) -> None:
    """Explain a rule, or list all rules.

    The page explains what is wrong, why it matters, how it occurs in practice and how to fix it.
    """
    from wdsflow.validate.rules.rule_catalog import BadRule, UnknownCode, catalogue
    from wdsflow.validate.rules.rule_catalog import explain as page

    try:
        if code is not None:
            sys.stdout.write(without_markup(page(code.strip().upper())).rstrip() + "\n")
            return
        rules = catalogue()
    except UnknownCode as error:
        fail(str(error), "all codes: wdsflow explain")
    except BadRule as error:
        fail(str(error))
    from rich.text import Text

    out = console()
    for name, severity, title in rules:
        out.print(Text.assemble((name, "bold"), f"  {severity:<8} ", title), soft_wrap=True)
