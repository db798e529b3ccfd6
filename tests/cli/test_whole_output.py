"""All that commands print on a small set of shards, word by word."""

import bz2
import gzip
import io
import json
import os
import re
import shlex
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from tests.golden_file import check_text
from tests.printed.pasted import run
from tests.shards.archives import JPEG, tar_bytes, write_tar

GOLDEN = Path(__file__).parent / "golden" / "output.txt"


def sample(key, number=0, *, caption=True):
    value = {"url": f"http://{key}", "width": 100 + number, "tags": ["a"]}
    fields = [("jpg", JPEG + key.encode()), ("json", json.dumps(value).encode())]
    return [
        (f"{key}.{field}", data)
        for field, data in fields + [("txt", f"caption of {key}".encode())] * caption
    ]


def write_sets(place):
    """Write valid, damaged and odd shards, and tables."""
    for folder in ("s", "d", "odd", "t"):
        (place / folder).mkdir()
    for shard in range(2):
        members = [
            each for number in range(3) for each in sample(f"{shard}{'abc'[number]}", number)
        ]
        write_tar(place / f"s/{shard}.tar", members)
    whole = tar_bytes([each for number in range(4) for each in sample(f"d{number}", number)])
    (place / "d/cut.tar").write_bytes(whole[: len(whole) // 2])
    at = whole.index(b"d1.jpg")
    (place / "d/header.tar").write_bytes(whole[:at] + b"\xff" * 40 + whole[at + 40 :])
    (place / "d/none.tar").write_bytes(b"no tar at all" * 100)
    (place / "d/empty.tar").write_bytes(b"")
    write_tar(place / "d/whole.tar", sample("w"))
    apart = [f"{key}.{field}" for field in ("jpg", "txt") for key in ("a.b", "c")]
    write_tar(place / "odd/apart.tar", [(name, JPEG) for name in apart])
    write_tar(place / "odd/twice.tar", [*sample("x"), *sample("y"), *sample("x", 1)])
    write_tar(
        place / "odd/junk.tar",
        [("__MACOSX/._x.jpg", b"1"), *sample("x", caption=False), ("noname", b"2")],
    )
    write_tar(place / "odd/large.TAR", [*sample("K"), ("K.JPG", b"again")])
    rows = [
        (f"{shard}{key}", f"http://{shard}{key}", f"new {shard}{key}")
        for shard in range(2)
        for key in "abc"
    ]
    for name, chosen in {
        "all": rows,
        "few": [*rows[:2], ("no", "no", "no")],
        "twice": [*rows, *rows[:2]],
    }.items():
        (place / f"t/{name}.csv").write_text(
            "\n".join(["key,url,caption", *map(",".join, chosen), ""])
        )
    swapped = [(rows[0][0], rows[1][1], "a"), (rows[1][0], rows[0][1], "b")]
    (place / "t/swapped.csv").write_text(
        "\n".join(["key,url,caption", *map(",".join, swapped), ""])
    )
    (place / "t/tabs.csv").write_text("key\tcaption\n0a\tnew\n")
    for path in place.rglob("*.*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))


def write_odder_sets(place):
    """Write shards with global headers, odd names and other compressions.

    Many are damaged. There are odd tables too.
    """
    for folder in ("g", "m"):
        (place / folder).mkdir()
    for name, records in {
        "comment": {"comment": "x"},
        "size": {"size": "5"},
        "path": {"path": "all.txt"},
    }.items():
        with tarfile.open(
            place / f"g/{name}.tar", "w", format=tarfile.PAX_FORMAT, pax_headers=records
        ) as tar:
            for key in "ab":
                for field, data in (("jpg", JPEG), ("txt", b"12345")):
                    info = tarfile.TarInfo(f"{key}.{field}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    write_tar(
        place / "g/latin.tar",
        [*sample("0a"), ("\udce9.jpg", JPEG), ("\udce9.txt", b"latin"), *sample("0b", 1)],
    )
    whole = tar_bytes([each for number in range(40) for each in sample(f"{number:02}z", number)])
    (place / "g/whole.tar.gz").write_bytes(gzip.compress(whole, mtime=0))
    (place / "g/cut.tar.gz").write_bytes(gzip.compress(whole, mtime=0)[:-900])
    (place / "g/flipped.tar.bz2").write_bytes(
        bz2.compress(whole)[:2000] + b"x" + bz2.compress(whole)[2001:]
    )
    for number in range(12):
        (place / f"m/{number:02}.tar").write_bytes(
            tar_bytes(sample(f"m{number:02}"))[: 1200 if number else 3072 + 9]
        )
    rows = [f"{number:02}z,text {number}" for number in range(0, 40, 3)]
    (place / "t/third.csv").write_text(
        "\n".join(["key,caption", *rows, "0a,A", "0b,", "a,global", ""])
    )
    (place / "t/both.csv").write_text("key,caption\n0a,A\n0a,B\n0b,C\n0b,D\nx,E\n")
    (place / "t/names.jsonl").write_text(
        '{"key": "0a", "caption": "one", "tags": ["x"], "n": 3}\n{"key": "1c", "n": null}\n'
    )
    (place / "t/cut.jsonl").write_text('{"key": "0a", "caption": "one"}\n{"key": "0b", "capt')
    for path in (*place.glob("[gm]/*"), *place.glob("t/*")):
        os.utime(path, (1_700_000_000, 1_700_000_000))


S = "s/0.tar s/1.tar"
SCENES = {
    "graft": [
        f"graft {S} --from t/all.csv --on key --set txt=caption --set json:width=url -o out --jobs 1",
        f"graft {S} --from t/all.csv --on key --set txt=caption --set json:width=url -o out --jobs 1",
        f"graft {S} --from t/few.csv --on key --set txt=caption -o out --jobs 1",
        f"graft {S} --from t/few.csv --on key --set txt=caption -o out --jobs 1 --restart --drop-unmatched",
        f"graft {S} --from t/all.csv --on json:url=url --set 'json:url=url' -o same --jobs 1",
    ],
    "graft with ambiguous rows": [
        f"graft {S} --from t/twice.csv --on key --set txt=caption -o out --jobs 1",
        f"graft {S} --from t/twice.csv --on key --set txt=caption -o drop --jobs 1 --ambiguous drop",
        f"graft {S} --from t/twice.csv --on key --set txt=caption -o first --jobs 1 --ambiguous first",
    ],
    "graft that is refused": [
        f"graft {S} --from t/swapped.csv --on key --set txt=caption -o out --jobs 1",
        f"graft {S} --from t/all.csv --on json:url=key --set txt=caption -o out --jobs 1",
        f"graft {S} --from t/all.csv --on id --set txt=caption -o out --jobs 1",
        f"graft {S} --from t/all.csv --on key=Key --set txt=Captoin -o out --jobs 1",
        f"graft {S} --from t/all.csv --on key --set txt=nothing -o out --jobs 1",
        f"graft {S} --from t/tabs.csv --on key --set txt=caption -o out --jobs 1",
        f"graft {S} --from t/al.csv --on key --set txt=caption -o out --jobs 1",
        f"graft {S} --from '' --on key --set txt=caption -o out --jobs 1",
        f"graft {S} --from t/all.csv --on key --set caption -o out --jobs 1",
        f"graft {S} --from t/all.csv --on key --set jpg=caption -o out --jobs 1",
        f"graft {S} --from t/all.csv --on key --set txt=caption --set txt=url -o out --jobs 1",
        f"graft {S} --from t/all.csv --on key --set txt:name=caption -o out --jobs 1",
        "graft d/none.tar --from t/all.csv --on key --set txt=caption -o out --jobs 1",
        "graft d/cut.tar s/0.tar --from t/all.csv --on key --set txt=caption -o cut --jobs 1",
    ],
    "repair": [
        "repair d odd -o out --jobs 1",
        "repair d odd -o out --jobs 1",
        "repair d/whole.tar -o whole --jobs 1",
        "repair d/none.tar -o none --jobs 1",
        "validate out --level names",
    ],
    "repair that only shows": [
        "repair d odd -o out --dry-run --jobs 1",
        "repair s -o out --dry-run --jobs 1",
    ],
    "reshard": [
        f"reshard {S} -o out --samples 4 --jobs 1",
        f"reshard {S} -o out --samples 4 --jobs 1",
        f"reshard {S} -o out --samples 2 --jobs 1",
        f"reshard {S} -o out --samples 2 --jobs 1 --restart",
        f"reshard {S} -o three --shards 3 --shuffle 1 --jobs 1",
        f"reshard {S} -o four --divisible-by 4 --jobs 1",
        f"reshard {S} -o size --size 4KiB --jobs 1",
        "reshard d s -o damaged --samples 5 --jobs 1",
        "reshard odd/twice.tar odd/apart.tar -o odd-out --shards 1 --jobs 1",
        "reshard d/none.tar -o none --samples 5 --jobs 1",
    ],
    "reshard that is refused": [
        f"reshard {S} -o out",
        f"reshard {S} -o out --samples 4 --shards 2",
        f"reshard {S} -o out --shards 7",
        f"reshard {S} -o out --size 0",
        f"reshard {S} -o out --divisible-by 0",
        "reshard nowhere -o out --samples 4",
    ],
    "index": [
        "index s --jobs 1",
        "index s --jobs 1",
        "index s --energon --timm --jobs 1",
        "index odd -o odd-all --energon --timm --jobs 1",
        "index s -o s --sizes --restart --jobs 1",
        "index s/0.tar s/1.tar t/../s/0.tar -o twice --jobs 1",
        "index d -o damaged --jobs 1",
        "index odd -o odd-index --jobs 1",
        "index s odd -o two --jobs 1",
    ],
    "repair that leaves samples out": [
        "repair d odd -o out --drop-bad --jobs 1",
        "repair odd/junk.tar -o none --drop-bad --jobs 1",
        "repair odd/junk.tar -o none --drop-bad --jobs 1 --dry-run",
        "repair d/empty.tar d/none.tar -o empty --jobs 1",
        "repair s -o named --rename jpg=image --rename none=other --jobs 1",
        "repair s -o named --rename jpg --jobs 1",
        "repair s -o s --jobs 1",
        "repair s d/../s -o twice --jobs 1",
    ],
    "train that is refused": [
        "train",
        "train -- --train-data nowhere/0.tar",
        "train -- --train-data nowhere/{0..3}.tar --dataset-type webdataset",
        "train --where 'min_side > 3' -- --train-data s/{0..1}.tar",
        "train --ledger nowhere -- --train-data s/{0..1}.tar",
        "train --ledger nowhere --where 'min_side > 3' -- --train-data s/{0..1}.tar",
        "train --dry-run -- --train-data s/{0..1}.tar --workers 1 --batch-size 2 --train-num-samples 6",
        "train --dry-run -- --train-data d/none.tar",
        "train --stall-after 0 -- --train-data s/{0..1}.tar",
        "train --caption json: -- --train-data s/{0..1}.tar",
        "train --metrics x.txt -- --train-data s/{0..1}.tar",
        "train --memory lots -- --train-data s/{0..1}.tar",
        "train --decode quick -- --train-data s/{0..1}.tar",
        "train --batch-size 3 -- --train-data s/{0..1}.tar",
        "train --train-data s/{0..1}.tar",
    ],
    "wrong use": [
        "validate nowhere",
        "validate s --level nothing",
        "validate s --for nobody",
        "validate s --select W0",
        "validate s --max-loss 2",
        "validate s --output d/no/x.html --format html",
        "validate s --output d --format html",
        "explain W999",
        "explain F10",
        "report nowhere",
        "validat s",
        "inspect ''",
        "reshard s -o ''",
        "index s s -o index --jobs 0",
        "validate 's/{0..5}.tar' --level names",
        "validate 's/{0..99999999}.tar'",
        "validate @s/0.tar",
    ],
    "inspect": [
        "inspect s",
        "inspect s --keys 4",
        "inspect d odd --keys 20",
        "inspect s --sample 2 --seed 3",
        "inspect s --show 1b",
        "inspect s --show no",
        "inspect d --sample 9",
        "inspect d/none.tar",
        "inspect d/none.tar --sample 1",
        "inspect s --ledger x",
        "inspect odd --json",
        "inspect s --show 1b --json",
    ],
    "reshard of odd inputs": [
        "reshard g/comment.tar g/size.tar g/path.tar s/0.tar -o global --samples 4 --jobs 1",
        "reshard g/latin.tar s -o latin --samples 3 --by-key --jobs 1",
        "reshard g/whole.tar.gz -o packed --samples 9 --shuffle 2 --jobs 1",
        "reshard g/cut.tar.gz g/flipped.tar.bz2 -o cut --samples 9 --jobs 1",
        "reshard m s -o many --samples 9 --jobs 1",
        "reshard s -o again --samples 1 --jobs 1",
        "reshard s/0.tar -o again --samples 1 --jobs 1",
        "reshard s g/latin.tar -o split --samples 2 --split train=0.6,val=0.4 --jobs 1",
        "reshard s -o folds --samples 9 --folds 2 --jobs 1",
        "reshard s -o none --shards 3 --split train=1,val=0 --jobs 1",
        "reshard s odd/twice.tar s -o refused --shards 1 --repeated-keys refuse --jobs 1",
        "reshard 'pipe:cat s/0.tar' s/1.tar -o piped --samples 4 --jobs 1",
        "reshard 'pipe:cat s/0.tar' 'pipe:false' -o piped --samples 4 --jobs 1 --allow-pipe",
    ],
    "graft of odd inputs": [
        "graft g/latin.tar g/whole.tar.gz --from t/third.csv --on key --set txt=caption -o odd-out --jobs 1",
        "graft g/comment.tar g/size.tar g/path.tar --from t/third.csv --on key --set txt=caption -o global --jobs 1 --ambiguous first",
        "graft g/cut.tar.gz g/flipped.tar.bz2 m --from t/third.csv --on key --set txt=caption -o cut --jobs 1 --ambiguous each",
        f"graft {S} --from t/names.jsonl --on key --set json:a.b=tags --set txt=n -o json --jobs 1 --drop-unmatched",
        "graft odd/junk.tar --from t/names.jsonl --on key=caption --set json:a=n -o junk --jobs 1",
        "graft odd/apart.tar odd/large.TAR --from t/third.csv --on key --set cap=caption -o apart --jobs 1 --ambiguous drop",
        "graft s/0.tar odd/twice.tar --from t/both.csv --on key --set txt=caption -o both --jobs 1 --ambiguous first",
        f"graft {S} --from t/cut.jsonl --on key --set txt=caption -o refused --jobs 1",
        f"graft {S} --from t/all.csv --on json:url --set cls=url -o checked --jobs 1",
        "graft 'pipe:cat s/0.tar' --from t/all.csv --on key --set txt=caption -o piped --jobs 1 --allow-pipe",
        f"graft {S} --from t/all.csv --on sha256=url --set txt=caption -o hashed --jobs 1",
    ],
    "index of odd inputs": [
        "index g -o g-all --energon --timm --sizes --jobs 1",
        "index m -o m-all --sizes --jobs 1",
        "! mkdir own; cp s/*.tar own; echo '{}' > own/sizes.json; echo '{}' > own/_info.json",
        "index own --sizes --timm --jobs 1",
        "index own --sizes --timm --jobs 1 --restart",
        "index own --jobs 1",
        "! rm own/0.tar",
        "index own --sizes --timm --jobs 1",
        "! truncate -s 700 own/1.tar",
        "index own --sizes --timm --energon --jobs 1",
    ],
    "repair of odd inputs": [
        "repair g -o out --jobs 1",
        "repair g/latin.tar odd/junk.tar -o captions --caption json:url --jobs 1",
        "repair m -o many --jobs 1 --drop-bad",
        "repair 'pipe:cat s/0.tar' -o piped --jobs 1 --allow-pipe",
        "repair g/whole.tar.gz -o packed --jobs 1 --dry-run",
    ],
    "scores": [
        "measure s -o scored --scores 'caption_words, json_number(\"width\")' --jobs 1",
        "scores --ledger scored",
        "scores --ledger nowhere",
        "scores caption_words",
        "scores captionwords",
        "filter s -o kept --ledger scored --where 'json_number(\"width\") > 100' --jobs 1",
        "filter s -o none --ledger scored --where 'json_number(\"width\") > 900' --jobs 1",
        "filter s -o kept2 --ledger scored --where 'blur > 100' --jobs 1",
        "filter s -o kept3 --ledger s --where 'caption_words > 1' --jobs 1",
        "filter s -o kept --ledger scored --where 'caption_words > 1' --jobs 1",
        "measure s -o by-name --scores 'json_number(\"widht\")' --jobs 1",
    ],
}


# The others take a second or more.
QUICK = {
    "graft that is refused",
    "index",
    "inspect",
    "repair that leaves samples out",
    "reshard",
    "reshard that is refused",
    "train that is refused",
    "wrong use",
}
CASES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.deep) for name in SCENES]


@pytest.mark.parametrize("name", CASES)
def test_commands_print_what_the_golden_file_has(name, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    write_sets(tmp_path)
    if "odd inputs" in name:
        write_odder_sets(tmp_path)
    before = set(tmp_path.rglob("*"))
    text = "\n".join(shown(command, tmp_path) for command in SCENES[name])
    check_text(GOLDEN, name, "\n".join([text, *files(tmp_path, set(tmp_path.rglob("*")) - before)]))


def files(place, found):
    """Yield names, sizes and digests of files.

    Files whose bytes depend on the time or on libraries are left out.
    """
    for path in sorted(found):
        name = path.relative_to(place)
        if (
            path.is_file()
            and ".wdsflow" not in name.parts
            and path.suffix not in {".sqlite", ".parquet"}
        ):
            data = path.read_bytes().replace(os.fsencode(place), b"/PLACE")
            yield f"{name}: {len(data)} bytes, {sha256(data).hexdigest()[:12]}"


def shown(command, place):
    """Return a command with its exit status and all that it prints.

    Everything that differs between runs is replaced.
    """
    if command.startswith("! "):
        subprocess.run(command[2:], shell=True, cwd=place, check=True)
        return command
    done = run(shlex.split(command), place)
    text = f"$ wdsflow {command}\n{done.out}{done.errors and f'--- stderr{chr(10)}{done.errors}'}exit status {done.status}"
    text = text.replace(str(place), "/PLACE")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)?( m?s| shards/s| samples/s| MiB/s)\b", r"#\2", text)
    return "\n".join(line.rstrip() for line in text.splitlines())
