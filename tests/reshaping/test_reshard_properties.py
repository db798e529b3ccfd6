"""Resharding of random sets: every field of every sample comes out once, with its bytes."""

import tarfile
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.reshaping.sets import in_folder, keys_of, members
from tests.shards.archives import Entry, folder, write_tar
from wdsflow.reshaping.reshard.run_reshard import reshard_shards

KEYS = st.sampled_from(
    ["0", "1", "2", "d/0", "d.e/0", "é", "\udcff", "x y", "k" * 120, "-2", "0-2"]
)
FIELDS = st.lists(st.sampled_from(["txt", "json", "seg.png", "cls"]), unique=True, max_size=3)
SIZES = st.sampled_from([0, 1, 511, 512, 513, 2000])
SAMPLES = st.lists(st.tuples(KEYS, FIELDS, SIZES, st.booleans()), max_size=8)
FORMS = st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
SHARDS = st.lists(st.tuples(SAMPLES, FORMS), min_size=1, max_size=4)
SIZE = st.sampled_from([{}, {"samples": 2}, {"size": 5000}, {"size": 1}, {"divisible_by": "1x1"}])
ORDER = st.sampled_from([{}, {"shuffle": 0}, {"shuffle": 7}, {"by_key": True}])
PARTS = st.sampled_from([{}, {"folds": 3}, {"split": "a=0.5,b=0.5"}])


def write_drawn(place: Path, shards) -> None:
    """Write shards that were drawn from ``SHARDS`` into a folder."""
    for number, (samples, form) in enumerate(shards):
        entries: list[Entry | tarfile.TarInfo] = []
        for at, (key, fields, length, junk) in enumerate(samples):
            entries += [folder("junk")] * junk
            entries += [
                (f"{key}.{field}", f"{number} {at} {field} ".encode().ljust(length, b"."))
                for field in ["jpg", *fields]
            ]
        write_tar(place / f"{number}.tar", entries, form)


@cases(4)
@given(SHARDS, SIZE, ORDER, PARTS)
def test_every_field_comes_out_once_with_its_bytes(shards, size, order, parts):
    with tempfile.TemporaryDirectory() as place:
        source, out = Path(place) / "in", Path(place) / "out"
        source.mkdir()
        write_drawn(source, shards)
        report = reshard_shards(str(source), out, **size, **order, **parts)
        before, after = in_folder(source), in_folder(out)
        assert Counter(item[1:] for item in members(before).elements()) == Counter(
            item[1:] for item in members(after).elements()
        )
        assert (
            report.samples
            == report.samples_written
            == sum(map(len, before))
            == sum(map(len, after))
        )
        for shard in after:
            keys = keys_of([shard])
            assert len(set(keys)) == len(keys)
            assert shard
        origin = {fields["jpg"]: (key, fields) for shard in before for key, fields in shard}
        renamed = 0
        for shard in after:
            for key, fields in shard:
                old, whole = origin[fields["jpg"]]
                assert fields == whole  # no sample was parted or joined
                assert key == old or key.rpartition("-")[0] == old
                renamed += key != old
        assert renamed == report.renamed
