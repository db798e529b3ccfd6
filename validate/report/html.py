"""The report as one self-contained page: for notebooks, mail and CI artefacts."""

from html import escape as _quoted

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import command_lines, how_many, place, plain, size

from ..forecast.forecast_text import sentences
from ..verdicts.verdict import Verdict
from ..verdicts.wording import no_verdict_text
from .finding_groups import SEVERITIES, FindingGroup, fixes, group
from .next_steps import steps
from .page_style import STYLE
from .report_model import Results
from .report_text import closing_line, ignored_lines, means, notes, said

SHOWN = 50  # findings of one rule, and shards, that a page lists

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
</head>
<body style="margin:0 auto;max-width:64rem;padding:1.5rem 1rem">
{body}
</body>
</html>
"""


def render(report: Results) -> str:
    """Return the report as a whole page."""
    outcome = ", ".join(f"{verdict.title}: {verdict.outcome}" for verdict in report.verdicts) or "shards"
    return _PAGE.format(title=_text(f"wdsflow: {outcome}"), body=fragment(report))


def fragment(report: Results) -> str:
    """Return the report as one element with its own styles, to embed in another page."""
    parts = [f"<style>{STYLE}</style>"]
    parts += [f"<p>{_text(why)}</p>"] if (why := no_verdict_text(report.evidence.shards)) else []
    parts += [_verdict(verdict) for verdict in report.verdicts]
    parts += [_steps(report), _findings(report), _forecasts(report), _shards(report)]
    parts += [f"<p class=note>{_text(note)}</p>" for note in notes(report)]
    parts.append(f"<p class=dim>{_text(closing_line(report))}</p>")
    return '<div class="wdsflow">\n' + "\n".join(part for part in parts if part) + "\n</div>"


def _text(text: str) -> str:
    """Escape twice: control characters for people, markup for the browser."""
    return _quoted(plain(text))


def _code(command: str) -> str:
    return "<pre>" + "\n".join(_quoted(line) for line in command_lines(command)) + "</pre>"


def _verdict(verdict: Verdict) -> str:
    summary, reasons = said(verdict)
    share = verdict.usable / verdict.samples if verdict.samples else 0.0
    funnel = verdict.funnel
    steps = (
        (funnel.members, "members"),
        (funnel.samples, "samples"),
        (funnel.complete, "with image and caption"),
        (funnel.decoded, "decode"),
        (funnel.usable, "reach a batch"),
    )
    cells = "".join(f"<li><b>{number:,}</b> {name}</li>" for number, name in steps)
    listed = "".join(f"<li>{_text(reason)}</li>" for reason in reasons)
    meaning = means(verdict)
    return (
        f'<section class="verdict {verdict.outcome}">'
        f"<h2>{_text(verdict.title)} <span class=outcome>{verdict.outcome}</span></h2>"
        f"<p>{_text(summary)}{'. ' + _text(meaning[:1].upper() + meaning[1:]) + '.' if meaning else ''}</p>"
        f"<div class=bar><div style='width:{100 * share:.2f}%'></div></div>"
        f"<ol class=funnel>{cells}</ol>" + (f"<ul>{listed}</ul>" if listed else "") + "</section>"
    )


def _steps(report: Results) -> str:
    items = []
    for step in steps(report):
        care = "" if step.safe else " <span class=dim>unsafe: data is changed or left out</span>"
        items.append(f"<li>{_text(step.text)}{care}{_code(step.command) if step.command else ''}</li>")
    return f"<h3>What to do</h3><ol>{''.join(items)}</ol>" if items else ""


def _findings(report: Results) -> str:
    groups = group(report.findings)
    parts = [f"<h3>{'Found' if groups else 'No problems found'}</h3>"] if report.verdicts or groups else []
    parts += [_group(each) for each in groups]
    parts += [f"<p class=dim>{_text(line)}</p>" for line in ignored_lines(report)]
    return "".join(parts)


def _group(each: FindingGroup) -> str:
    rows = []
    for finding in each.findings[:SHOWN]:
        where = place(finding.shard, finding.key, finding.offset, said=plain(finding.message))
        rows.append(f"<li>{_text(finding.message)}{f' <span class=dim>{_text(where)}</span>' if where else ''}</li>")
    if len(each.findings) > SHOWN:
        rows.append(f"<li class=dim>and {len(each.findings) - SHOWN:,} more</li>")
    remedies = "".join(
        f"<p class=dim>Fix{'' if repair.safe else ' (unsafe: data is changed or left out)'}"
        f"{': ' + _text(repair.note) if repair.note else ''}</p>{_code(repair.command)}"
        for repair, _ in fixes(each.findings)[:2]
    )
    opened = " open" if each.severity == "error" else ""
    title = each.title or each.findings[0].message
    places = f"<span class=dim>{len(each.findings):,} places</span>" if len(each.findings) > 1 else ""
    return (
        f"<details{opened}><summary><span class='tag {each.severity}'>{SEVERITIES[each.severity]}</span> "
        f"<b>{_text(each.code)}</b> {_text(title)} {places}</summary>"
        f"<ul>{''.join(rows)}</ul>{remedies}</details>"
    )


def _forecasts(report: Results) -> str:
    blocks = ("\n".join(_text(line) for line in sentences(each)) for each in report.forecasts)
    return "".join(f"<h3>Forecast</h3><pre>{block}</pre>" for block in blocks)


def _shards(report: Results) -> str:
    shards = report.evidence.shards
    if not shards:
        return ""
    rows = "".join(_shard(shard) for shard in shards[:SHOWN])
    more = f"<p class=dim>and {how_many(len(shards) - SHOWN, 'more shard')}</p>" if len(shards) > SHOWN else ""
    return (
        f"<details><summary>{how_many(len(shards), 'shard')}</summary><table><tr><th>shard<th>size<th>members<th>samples"
        f"<th>state</tr>{rows}</table>{more}</details>"
    )


def _shard(shard: ShardEvidence) -> str:
    state = shard.error or ("" if shard.stop.kind == "end" else f"{shard.stop.kind} at byte {shard.stop.offset:,}")
    return (
        f"<tr><td>{_text(shard.url)}<td>{'' if shard.size is None else size(shard.size)}<td>{shard.members:,}"
        f"<td>{shard.samples:,}<td>{_text(state)}</tr>"
    )
