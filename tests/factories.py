"""Reports made by hand, with data as nasty as data can be."""

from dataclasses import dataclass, field
from typing import Any

from wdsflow.scan.evidence import Evidence, FieldCount, Gap, ShardEvidence
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop
from wdsflow.validate import Finding, Repair, Report, Verdict
from wdsflow.validate.finding import Advice
from wdsflow.validate.forecast.forecast_result import Forecast, Starved
from wdsflow.validate.verdicts.verdict import Funnel, Reason

NASTY = "a\x1b[31m[red]b[/red]\n::error::c\r\u202e\udcff\x00,%<script>alert(1)</script>&\ufffe"


def forecast(crash: str | None = None) -> Forecast:
    starved = Starved(epoch=0, rank=0, worker=3, usable=0, shards=1, batch_size=64)
    return Forecast("open-clip-3.3", workers=4, crash=crash, stalled=() if crash else (starved,))


def advice(
    does: str = 'Take captions from the json field "caption" (OpenCLIP 4)', **facts: Any
) -> Advice:
    given: dict[str, Any] = {
        "regains": 10_000,
        "command": "--json-text-key caption",
        "reader": "open-clip-3.3",
    }
    return Advice(action=does, **(given | facts))


@dataclass
class Numbers:
    """How a report comes out."""

    shards: int = 3
    samples: int = 10_000
    usable: int = 10_000
    outcome: str = "trains"
    reasons: tuple[Reason, ...] = ()
    findings: list[Finding] = field(default_factory=list)


def shard(url: str = "shards/0000.tar", samples: int = 10, **facts: Any) -> ShardEvidence:
    return ShardEvidence(
        url=single_shard(url),
        size=10_240,
        members=2 * samples,
        samples=samples,
        fields={"jpg": FieldCount(samples, 100, 10), "txt": FieldCount(samples, 50, 5)},
        bytes_read=4_096,
        **facts,
    )


def verdict(
    outcome: Any = "trains",
    samples: int = 30,
    usable: int = 30,
    reasons: tuple[Reason, ...] = (),
    **facts: Any,
) -> Verdict:
    given: dict[str, Any] = {
        "reader": "open-clip-3.3",
        "title": "OpenCLIP 3.3.0",
        "exact": True,
        "funnel": Funnel(2 * samples, samples, usable, usable, usable),
    }
    return Verdict(
        outcome=outcome, samples=samples, usable=usable, reasons=reasons, **(given | facts)
    )


def finding(code: str = "W006", severity: Any = "error", **facts: Any) -> Finding:
    given: dict[str, Any] = {
        "message": f"0000.tar: 3 of 10 samples: trouble {code}",
        "shard": "shards/0000.tar",
    }
    return Finding(code, severity, **(given | facts))


def healthy(shards: int = 3) -> Report:
    found = [shard(f"shards/{number:04d}.tar") for number in range(shards)]
    samples = 10 * shards
    return Report(
        urls=["shards/{0000.." + f"{shards - 1:04d}" + "}.tar"],
        evidence=Evidence("headers", found),
        verdicts=[verdict(samples=samples, usable=samples)],
        seconds=1.25,
    )


def stalled(samples: int = 10_000) -> Report:
    """Captions in json, as OpenCLIP 3.3 cannot read them."""
    reason = Reason(
        "no-caption",
        samples,
        f"{samples:,} of {samples:,} samples: no caption field (txt); they have jpg, json",
    )
    return Report(
        urls=["shards/{0000..0001}.tar"],
        evidence=Evidence(
            "headers", [shard(f"shards/{number:04d}.tar", samples // 2) for number in range(2)]
        ),
        verdicts=[
            verdict(
                "stalls",
                samples,
                0,
                (reason,),
                exact=False,
                note="images were judged by their first bytes, not decoded",
            )
        ],
        findings=[
            finding(
                "W101",
                shard=f"shards/{number:04d}.tar",
                message=f"{number:04d}.tar: {samples // 2:,} of {samples // 2:,} samples have captions in json only",
                count=samples // 2,
                readers=("open-clip-3.3",),
                repair=Repair(
                    "wdsflow repair shards/0000.tar --text-from json:caption",
                    True,
                    "writes new shards",
                ),
            )
            for number in range(2)
        ],
        advice=[advice(regains=samples)],
        level="headers",
        seconds=3.4,
    )


def nasty() -> Report:
    """Names, keys and texts that want to be more than text."""
    url = f"shards/{NASTY}.tar"
    return Report(
        urls=[url],
        evidence=Evidence(
            "full",
            [shard(url, stop=Stop("error", 512, NASTY)), shard("gone.tar", 0, error="missing")],
            [Gap(url, (NASTY,), 1)],
        ),
        verdicts=[
            verdict(
                "crashes",
                30,
                5,
                (Reason(NASTY, 1, NASTY, url, NASTY, 3),),
                title=f"x{NASTY}",
                reader="c" + NASTY,
            )
        ],
        findings=[
            finding(
                shard=url,
                key=NASTY,
                offset=1_024,
                message=NASTY,
                repair=Repair(NASTY, False, NASTY),
            ),
            finding("W007", "warning", shard=None, message=NASTY),
            finding("W008", "info", shard="s3://bucket/0.tar", message="[bold]x"),
        ],
        ignored=[(finding("W009", message=NASTY), NASTY)],
        accepted=[finding("W010"), finding("W011")],
        forecasts=[forecast(NASTY)],
        advice=[advice(NASTY, command=NASTY, reader=NASTY, safe=False)],
        level="full",
        notes=[NASTY],
        seconds=0.5,
    )
