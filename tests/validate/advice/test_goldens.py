"""What to do about the shards of each rule, for all readers: every number and every command.

``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes the files again.
"""

from pathlib import Path

import pytest

from tests.golden_file import check_file
from tests.validate.reader_groups import reader_groups
from tests.validate.rules.cases import CASES
from wdsflow import check
from wdsflow.readers import READERS
from wdsflow.text.install import install_packages
from wdsflow.validate import Report
from wdsflow.validate.verdicts.wording import short_title

GOLDEN = Path(__file__).parent / "golden"
# The sizes of their images depend on the version of the encoder.
UNSTABLE = {
    "I207",
    "I208",
    "I218",
}


def shown(report: Report) -> str:
    """Return advice, findings with their repairs, and outcomes; each command once."""
    commands: dict[str, int] = {}

    def command(text: str) -> str:
        return f"#{commands.setdefault(text, len(commands) + 1)}" if text else "-"

    texts = {
        each.reader: f"{each.outcome} {each.usable} of {each.samples}" for each in report.verdicts
    }
    titles = {each.reader: short_title(each.title) for each in report.verdicts}
    for each in report.advice:
        # Otherwise no two readers would have the same advice.
        action = each.action.replace(titles[each.reader], "READER")
        numbers = f"+{each.regains} to {each.usable}{'' if each.exact else ' at most'}{'' if each.safe else ' unsafe'}"
        texts[each.reader] += (
            f"\n  {numbers} {command(each.command)} {' '.join(each.flags)}: {action}"
        )
    lines = [f"{names}: {text}" for names, text in reader_groups(texts)]
    for found in report.findings:
        place = f"{found.code} {found.severity} {found.shard} {found.key!a} {found.offset} x{found.count}"
        fix = found.repair
        lines.append(
            f"{place} {'' if fix is None else f'{command(fix.command)} {fix.safe} {fix.note}'}"
        )
    lines += [f"#{number} {text}" for text, number in commands.items()]
    text = "\n".join(lines)
    return "".join(line.rstrip() + "\n" for line in text.split("\n"))


@pytest.mark.parametrize("code", [code for code in CASES if code not in UNSTABLE])
def test_advice_is_what_the_golden_file_says(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = CASES[code].write(tmp_path)
    # Differs from one installation to the next.
    installer = install_packages("*").removesuffix("'*'")
    text = shown(check(names, tuple(READERS), level="full", jobs=1)).replace(
        installer, "pip install "
    )
    check_file(GOLDEN / f"{code}.txt", text)
