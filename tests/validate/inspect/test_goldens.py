"""The contents of the shards that have rules, as text and as JSON.

``WDSFLOW_UPDATE_GOLDENS=1`` rewrites the golden files.
"""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.golden_file import check_file
from tests.validate.report.test_goldens import SETS
from tests.validate.rules.build import tar
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.inspect.listed_samples import first_samples
from wdsflow.validate.inspect.overview import overview
from wdsflow.validate.inspect.overview_text import show_overview, show_samples
from wdsflow.validate.report.as_json import make_encodable

GOLDEN = Path(__file__).parent / "golden"
WIDE = {
    "0.tar": tar(
        [
            *((f"k{n:02d}.{'x' * (n % 14 + 1)}{n % 14}", b"a" * n) for n in range(40)),
            *((f"many.f{n:02d}", b"7" * 1500 * n) for n in range(14)),
            *(
                (f"j{n}.json", json.dumps({f"name {n}": f"text {n}", "id": n}).encode())
                for n in range(15)
            ),
            ("Z.TXT", b"upper"),
        ]
    ),
    **{f"{n}.tar": tar([(f"{n}.txt", b"same")]) for n in range(1, 14)},
}


@pytest.mark.parametrize("name", [*SETS, "wide"])
def test_an_overview_is_what_the_golden_file_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shards = SETS.get(name, WIDE)
    for shard, data in shards.items():
        Path(shard).write_bytes(data)
    total = overview([scan_shard(single_shard(shard), ScanOptions("headers")) for shard in shards])
    buffer = io.StringIO()
    console = Console(file=buffer, width=100, color_system=None)
    show_overview(total, console)
    for shard in shards:
        if found := first_samples(single_shard(shard), 30 if name == "wide" else 3):
            show_samples(shard, found, console)
            buffer.write(json.dumps(make_encodable(found[-1].to_dict())) + "\n")
        if name == "wide":
            found = first_samples(single_shard(shard), 41)
            show_samples(shard, found[40:], console)
            break
    text = buffer.getvalue() + json.dumps(make_encodable(total.to_dict()), indent=1) + "\n"
    check_file(GOLDEN / f"{name}.txt", text)
