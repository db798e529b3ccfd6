"""Samples are made of the bytes of shards, or lost with a reason."""

import contextlib
import os
import pickle
import re
from pathlib import Path

import pytest

from tests.golden_file import check_text
from wdsflow.shards.source.base import read_fully, single_shard
from wdsflow.stages import Dropped, StageError
from wdsflow.stages.caption_sources import LARGEST, parse_captions
from wdsflow.training.columns import FeedColumns
from wdsflow.training.sample_tasks import Blob, MadeSample, SampleRef, StreamKey, Task
from wdsflow.training.tokenized_captions import TokenizedCaptions
from wdsflow.training.workers.sample_members import OpenShards
from wdsflow.training.workers.sample_work import ChunkWork, SampleWork

GOLDEN = Path(__file__).parent / "golden" / "feed_parts.txt"


def task(ref: SampleRef, number: int = 0) -> Task:
    return Task(ref, 5, StreamKey(source=0, round=0, number=0), 0, number)


class Images:
    """Keeps the bytes of images; fails where they say so."""

    def run(self, data, seed, hold):
        if data == b"memory":
            raise MemoryError("no room")
        if data == b"fault":
            raise ZeroDivisionError("a fault")
        if data == b"drop":
            raise Dropped("small")
        if data == b"stage":
            raise StageError("truncated", "y" * 400)
        return data[:30], seed


def upper(texts):
    return [text.upper() for text in texts]


def test_samples_are_made_of_bytes_and_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.tar").write_bytes(b"imagecap" + b"." * 8000 + b"END")
    held = Blob("txt", 3, -1, b"cap")

    def at(name, size, offset):
        return Blob(name, size, offset)

    samples = {
        "together": (at("jpg", 5, 0), (at("txt", 3, 5),)),
        "just close": (at("jpg", 5, 0), (at("txt", 3, 8008),)),
        "caption first": (at("jpg", 3, 5), (at("txt", 5, 0),)),
        "two places": (at("jpg", 5, 0), (at("cap", 1, 0), at("txt", 3, 5))),
        "past the end": (at("jpg", 5, 0), (at("txt", 4, 8008),)),
        "image past the end": (at("jpg", 5, 8008), (at("txt", 3, 5),)),
        "as large as allowed": (at("jpg", 100, 0), (at("txt", 3, 5),)),
        "too large": (at("jpg", 101, 0), (at("txt", 3, 5),)),
        "not kept": (at("jpg", 9, -1), (held,)),
        "held": (Blob("jpg", 5, -1, b"image"), (held,)),
        "large caption": (Blob("jpg", 5, -1, b"image"), (Blob("txt", LARGEST + 1, -1, None),)),
        "large caption in a file": (at("jpg", 5, 0), (at("txt", LARGEST + 1, 5),)),
        **{
            name: (Blob("jpg", 5, -1, name.encode()), (held,))
            for name in ("memory", "drop", "stage")
        },
    }
    shards = OpenShards()
    source = SampleWork(
        Images(), FeedColumns(("jpg",), parse_captions("txt")), upper, 100, shards=shards
    )
    work = ChunkWork((source,))
    lines, notes = [], []
    tasks = [task(SampleRef(single_shard("x.tar"), key, *rest)) for key, rest in samples.items()]
    work(tasks, notes.append)
    lines += [f"{one.ref.key}: {one.result}" for one in tasks]
    missing = task(SampleRef(single_shard("no.tar"), "k", at("jpg", 1, 0), (at("txt", 1, 1),)))
    work([missing], notes.append)
    lines.append(repr(missing.result))
    fault = task(SampleRef(single_shard("x.tar"), "k", Blob("jpg", 5, -1, b"fault"), (held,)))
    with pytest.raises(RuntimeError) as caught:
        work([fault], notes.append)
    check_text(GOLDEN, "made samples", "\n".join([*lines, str(caught.value), repr(notes)]))
    work.close()


def short(texts):
    if any("long" in text for text in texts):
        raise KeyError("long")
    return [[len(text)] for text in texts]


def at_once(texts):
    if len(texts) > 2 and not isinstance(texts, str):
        raise KeyError("several")
    return [[len(text)] for text in texts]


def shifted(texts):
    return texts[1:]


@pytest.mark.parametrize("tokenizer", [short, at_once, shifted])
def test_a_tokenizer_that_fails_is_told_with_the_sample_if_one_is_to_blame(tokenizer):
    captions = {"a": b"short", "b": b"too long", "c": b"long too"}
    tasks = [
        task(
            SampleRef(
                single_shard("x.tar"),
                key,
                Blob("jpg", 5, -1, b"image"),
                (Blob("txt", 3, -1, text),),
            ),
            number,
        )
        for number, (key, text) in enumerate(captions.items())
    ]
    work = SampleWork(
        Images(), FeedColumns(("jpg",), parse_captions("txt")), TokenizedCaptions(tokenizer), 100
    )
    with pytest.raises(RuntimeError) as caught:
        ChunkWork((work,))(tasks, lambda note: None)
    text = re.sub(r"/\S*/(\w+\.py), line \d+", r"\1", str(caught.value))
    check_text(GOLDEN, f"a tokenizer that fails: {tokenizer.__name__}", text)


def test_files_stay_open_while_they_are_used(tmp_path):
    def is_open(fd):
        try:
            os.fstat(fd)
        except OSError:
            return False
        return True

    paths = [tmp_path / f"{number:02d}" for number in range(66)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%02d345" % number)
    files = OpenShards()
    with files.use(str(paths[0])) as first:
        opened = []
        for path in paths[1:]:
            with files.use(str(path)) as fd:
                opened.append(fd)
        assert is_open(first)
        assert read_fully(first, 3, 1) == b"034"
        assert read_fully(first, 9, 3) == b"45"
        assert read_fully(first, 9, 5) == b""
    with files.use(str(paths[65])) as last:
        assert last == opened[-1]
        files.close()
        assert is_open(last)
    assert not is_open(last)


def test_a_copy_for_another_process_makes_the_same_samples_with_files_of_its_own(
    tmp_path: Path,
) -> None:
    shard = tmp_path / "0.tar"
    shard.write_bytes(b"imagecap")
    fields = FeedColumns(("jpg",), parse_captions("txt"))
    tokens = TokenizedCaptions(short)
    work = SampleWork(Images(), fields, tokens, 5, hold=lambda _: contextlib.nullcontext())
    fits, large = Blob("jpg", 5, 0), Blob("jpg", 6, 0)
    captions = (Blob("txt", 3, 5),)
    refs = [SampleRef(single_shard(str(shard)), "k", image, captions) for image in (fits, large)]
    made, copied = [task(ref) for ref in refs], [task(ref) for ref in refs]
    ChunkWork((work,))(made, lambda _: None)

    copy = pickle.loads(pickle.dumps(work))
    ChunkWork((copy,))(copied, lambda _: None)

    assert [one.result for one in copied] == [one.result for one in made]
    assert made[0].result == MadeSample((b"image", 5), [3], ())
    assert copy.shards is not work.shards
    for one in (work, copy):
        one.shards.close()
