"""``wdsflow doctor``: finds and fixes problems that break or slow training on this machine."""

import json
import sys
from dataclasses import dataclass

from wdsflow.cli.shared.printing import console
from wdsflow.cli.shared.typed import Typed
from wdsflow.text.options import option
from wdsflow.text.shell import Command, escape

_STYLES = {"ok": "green", "info": "cyan", "warning": "bold yellow", "error": "bold red"}


@dataclass(frozen=True)
class Form:
    """The form of the report."""

    as_json: bool = option(False, "Print JSON.", "--json")


def doctor(_: Typed, form: Form) -> None:
    """Check this machine, with a fix for each problem.

    Checks versions that do not fit together, shared memory, limits, allocators and environment
    variables.

    Exit status: 1 if something will break, otherwise 0.
    """
    from wdsflow.validate.checkup import examine

    checks = examine()
    broken = any(check.status == "error" for check in checks)
    if form.as_json:
        tree = {"version": 1, "ok": not broken, "checks": [check.to_dict() for check in checks]}
        print(json.dumps(tree, indent=2))
        sys.exit(int(broken))
    from rich.text import Text

    out = console()
    width = max(len(check.name) for check in checks)
    for check in checks:
        message = Text(escape(check.message, 1_000))
        prefix = Text.assemble(
            (f"{check.status:<8}", _STYLES[check.status]), f"{check.name:<{width}}  "
        )
        indent = " " * len(prefix)
        for number, line in enumerate(message.wrap(out, max(out.width - len(prefix), 30))):
            line.rstrip()
            start = Text(indent) if number else prefix
            out.print(start + line, soft_wrap=True)
        if check.fix:
            label = "run: " if isinstance(check.fix, Command) else "fix: "
            fix = Text(escape(check.fix, 10_000), "bold")
            out.print(Text(indent + label) + fix, soft_wrap=True)
    if broken:
        out.print(Text("Training would fail on this machine.", "bold red"))
    sys.exit(int(broken))
