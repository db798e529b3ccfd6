"""Ray Data reads compressed shards through Arrow.

The name decides the compression. Shards of several streams are read completely; truncated ones are
not read at all.
"""

import bz2
import gzip
import lzma
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from tests.conformance.predict import predict, scan_all
from tests.shards.archives import JPEG, tar_bytes
from wdsflow.readers import READERS, Options, scan_options
from wdsflow.shards.source.base import single_shard

pa = pytest.importorskip("pyarrow")

PACKERS: dict[str, Any] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.compress,
    "xz": lzma.compress,
    "": bytes,
}


def by_ray(path: Path) -> int | None:
    """Return the number of members that Ray's own iterator yields, None if it raises."""
    from ray.data._internal.datasource.webdataset_datasource import _tar_file_iterator
    from ray.data._internal.util import infer_compression

    try:
        with pa.fs.LocalFileSystem().open_input_stream(
            str(path), compression=infer_compression(str(path))
        ) as stream:
            return len(list(_tar_file_iterator(stream)))
    except Exception:
        return None


def hurt(r: Random, kind: str) -> bytes:
    count = r.randint(1, 20)
    fields = [
        (f"{n}.{field}", data)
        for n in range(count)
        for field, data in (("jpg", JPEG * 30), ("txt", b"a cat"))
    ]
    data, pack = tar_bytes(fields), PACKERS[kind]
    border = data.index(b"%d.txt" % r.randrange(count))
    packed = pack(data)
    ways = [
        packed,
        packed[: r.randint(0, len(packed))],
        packed[: -r.randint(1, min(len(packed), 40))],
        pack(data[:border])[: -r.randint(1, 8)],
        pack(data[:border]) + pack(data[border:]),
        (pack(data[:border]) + pack(data[border:]))[: -r.randint(1, 40)],
        packed + b"junk",
        packed + r.randbytes(20_000),
    ]
    found: bytes = r.choice(ways)
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", PACKERS)
def test_what_ray_makes_of_a_compressed_shard_is_foretold(kind, tmp_path: Path):
    pytest.importorskip("ray")
    reader = READERS["ray-data"](Options())
    for seed in range(40):
        r = Random(seed)
        path = (
            tmp_path
            / f"{seed}.tar{r.choice(['', '.gz', '.bz2', '.zst', '.xz', f'.{kind}', f'.{kind}'])}".rstrip(
                "."
            )
        )
        path.write_bytes(hurt(r, kind))
        predicted = predict(
            scan_all(
                [str(path)], scan_options("names", [reader], list(map(single_shard, [str(path)])))
            ),
            reader,
        )
        funnel = predicted.verdict.funnel
        members = by_ray(path)
        assert predicted.error == (members is None), (seed, predicted.verdict)
        assert members is None or funnel.samples == (members + 1) // 2, seed
