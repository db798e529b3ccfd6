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

    found = examine()
    broken = any(each.status == "error" for each in found)
    if form.as_json:
        print(
            json.dumps(
                {"version": 1, "ok": not broken, "checks": [each.to_dict() for each in found]},
                indent=2,
            )
        )
        sys.exit(int(broken))
    from rich.text import Text

    out = console()
    width = max(len(each.name) for each in found)
    for each in found:
        message = Text(escape(each.message, 1_000))
        prefix = Text.assemble(
            (f"{each.status:<8}", _STYLES[each.status]), f"{each.name:<{width}}  "
        )
        room = max(out.width - len(prefix), 30)
        for number, line in enumerate(message.wrap(out, room)):
            line.rstrip()
            out.print((prefix if not number else Text(" " * len(prefix))) + line, soft_wrap=True)
        if each.fix:
            label = "run: " if isinstance(each.fix, Command) else "fix: "
            out.print(
                Text(" " * len(prefix) + label) + Text(escape(each.fix, 10_000), "bold"),
                soft_wrap=True,
            )
    if broken:
        out.print(Text("Training would fail on this machine.", "bold red"))
    sys.exit(int(broken))
