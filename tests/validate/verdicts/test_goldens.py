"""What one pass finds in the shards of each rule, and what all readers make of them, number by number.

``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes the files again.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from tests.validate.rules.cases import CASES
from wdsflow.readers import READERS
from wdsflow.readers.scan_for import scan_options
from wdsflow.scan.evidence import Evidence, Runs, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.validate.verdicts.verdict import judge

GOLDEN = Path(__file__).parent / "golden"
UNSTABLE = {"I207", "I208", "I218"}  # the sizes of their images depend on the version of the encoder
LEFT_OUT = {"url", "seconds", "columns", "varieties", "key_sketch", "junk_sketch", "image_sketch", "frequent_images"}
SKETCHES = ("key_sketch", "junk_sketch", "image_sketch")


def runs(found: Runs) -> str:
    """Return all runs on one line: key, offset and members."""
    shown = [f"{item.count} x {item.key!a} at {item.offset}: {members(item.shape)}" for item in found.counted()]
    before = [item.before for item in found.inner]
    return "; ".join(shown) + (f" {before}" if any(before) else "")


def members(shape: Any) -> str:
    return " ".join(f"{part.suffix!a}:{part.status}{'' if part.fits else '!'}" for part in shape)


def facts(shard: ShardEvidence, indent: str = "  ") -> Iterator[str]:
    """Yield a line for each fact that is not the default."""
    plain = ShardEvidence("")
    for each in fields(ShardEvidence):
        name, value = each.name, getattr(shard, each.name)
        if name in LEFT_OUT or value == getattr(plain, name):
            continue
        if isinstance(value, Runs):
            yield f"{indent}{name}: {runs(value)}"
        elif name == "by_parser":
            for parser, other in sorted(value.items()):
                yield f"{indent}{parser}:"
                yield from facts(other, indent + "  ")
        elif isinstance(value, ShardEvidence):
            yield f"{indent}{name}:"
            yield from facts(value, indent + "  ")
        elif name == "tallies":
            for tally, item in sorted(value.items()):
                yield f"{indent}{tally}: {item.count} {item.key!a} {item.offset} {item.detail!a}"
        elif name == "json_keys":
            for key, item in sorted(value.items()):
                shapes = "; ".join(f"{count} x {members(shape)}" for shape, count in item.shapes.items())
                yield f"{indent}json {key!a}: {[*asdict(item).values()][:-1]!a} {shapes}"
        elif name == "fields":
            yield f"{indent}fields: " + ", ".join(f"{k!a} {[*asdict(v).values()]}" for k, v in sorted(value.items()))
        else:
            yield f"{indent}{name}: {value!a}"
    yield f"{indent}sketches: {[len(getattr(shard, name)) for name in SKETCHES]} {[*shard.frequent_images.values()]}"


def verdicts(evidence: Evidence, readers: Any) -> Iterator[str]:
    """Yield what each reader makes of the shards; readers that agree are on one line."""
    said: dict[str, list[str]] = {}
    for reader in readers:
        found = judge(evidence, reader)
        exact = "" if found.exact else " not exact"
        least = "" if found.least is None else f" least {found.least}"
        lines = [f"{found.outcome} {found.usable} of {found.samples}{exact}{least}, {[*asdict(found.funnel).values()]}"]
        lines += [f"    {r.slug} {r.count} {r.shard} {r.key!a} {r.offset}: {r.message!a}" for r in found.reasons]
        lines += [f"    lost: {dict(found.lost)}"] if found.lost else []
        lines += [f"    {found.note!a}"] if found.note and evidence.level != "names" else []
        said.setdefault("\n".join(lines), []).append(reader.name)
    for text, names in said.items():
        yield f"  {', '.join(names)}: {text}"


def shown(case: Any, folder: Path) -> str:
    urls = [str(folder / name) for name in case.write(folder)]
    readers = [reader(case.options) for reader in READERS.values()]
    lines = []
    for level in ("full", "names"):
        shards = [scan_shard(url, scan_options(level, readers, urls)) for url in urls]
        if level == "full":
            for shard in shards:
                lines += [f"{Path(shard.url).name}", *facts(shard)]
        lines += [level, *verdicts(Evidence(level, shards), readers)]
    return "".join(line.replace(f"{folder}/", "") + "\n" for line in lines)


@pytest.mark.parametrize("code", [code for code in CASES if code not in UNSTABLE])
def test_a_pass_finds_what_the_golden_file_says_and_so_do_the_readers(code: str, tmp_path: Path) -> None:
    text = shown(CASES[code], tmp_path)
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("WDSFLOW_UPDATE_GOLDENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")

    assert text == golden.read_text(encoding="utf-8")
