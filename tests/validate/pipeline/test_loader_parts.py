"""What is inside a loader: its parts, its workers, and what cannot be sent to a worker."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch.utils.data

from tests.shards.archives import write_tar
from tests.validate.pipeline.small_set import scanned
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.validate.pipeline.loader.loader_parts import children, stateful_part, with_workers
from wdsflow.validate.pipeline.loader.loader_shards import clone_urls, shards_to_read
from wdsflow.validate.pipeline.loader.unpicklable_parts import unpicklable_parts
from wdsflow.validate.pipeline.sample_copies import SmallTars
from wdsflow.validate.pipeline.user_code.load_pipeline import PipelineError


class Numbers(torch.utils.data.Dataset[int]):
    """Has whatever a test gives it."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 4


def test_parts_of_lists_dicts_and_partials_have_their_path() -> None:
    call = partial(int, 5, base=7)

    assert list(children([1, "a"])) == [("[0]", 1), ("[1]", "a")]
    assert list(children({"x": 1, (2, "y"): 3})) == [("['x']", 1), ("[(2, 'y')]", 3)]
    assert list(children(call)) == [(".func", int), (".args", (5,)), (".keywords", {"base": 7})]
    assert list(children(Numbers(one=1))) == [(".one", 1)]
    assert list(children(torch.nn.Linear(1, 1))) == []
    assert list(children(torch.zeros(3))) == []


def test_workers_are_added_to_every_loader_and_taken_from_it() -> None:
    inner = torch.utils.data.DataLoader(Numbers(), num_workers=2, persistent_workers=True)
    outer = torch.utils.data.DataLoader(Numbers(inner=inner))

    assert with_workers(outer, 3) is outer
    assert [(each.num_workers, each.prefetch_factor) for each in (outer, inner)] == [(3, 2), (3, 2)]
    assert with_workers(outer, 0) is outer
    for each in (outer, inner):
        assert (each.num_workers, each.prefetch_factor, each.persistent_workers) == (0, None, False)
    inner.num_workers, inner.prefetch_factor = 1, 5  # type: ignore[misc]
    with_workers(inner, 4)
    assert (inner.num_workers, inner.prefetch_factor) == (4, 5)


def test_a_dataset_alone_gets_a_loader_and_other_things_none() -> None:
    dataset = Numbers()
    loader: Any = with_workers(dataset, 2)

    assert (loader.dataset, loader.num_workers, loader.batch_size) == (dataset, 2, None)
    things = [1, 2]
    assert with_workers(things, 2) is things


def test_a_model_is_not_what_has_the_state_of_a_loader() -> None:
    class Position:
        def state_dict(self) -> None: ...

        def load_state_dict(self, state: object) -> None: ...

    position = Position()
    loader = Numbers(model=torch.nn.Linear(1, 1), reader=Numbers(position=position))

    assert stateful_part(loader) == ("reader.position", position)
    assert stateful_part(Numbers(model=torch.nn.Linear(1, 1))) == (None, None)


def test_what_cannot_be_pickled_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def local() -> None:
        """Cannot be pickled."""

    def generate() -> Any:
        yield 1

    class Local:
        """Of a function: it cannot be pickled."""

    class Late:
        def __getstate__(self) -> dict[str, Any]:
            return {"kept": lambda: 1}

    # Long names are cut.
    monkeypatch.chdir(tmp_path)
    with Path("a.txt").open("w") as file:
        for thing, description in (
            (lambda: 1, "a lambda"),
            (local, f"the local function {local.__qualname__}"),
            (generate(), f"the generator {generate.__qualname__}"),
            (file, "the open file a.txt"),
            (Local(), f"an object of the local class {Local.__qualname__}"),
        ):
            loader = torch.utils.data.DataLoader(Numbers(thing=thing))
            [text] = unpicklable_parts(loader)
            assert text.endswith(f"dataset.thing cannot be pickled: it is {description}"), text
    # What __getstate__ leaves out is not sent: that which it adds is.
    [text] = unpicklable_parts(torch.utils.data.DataLoader(Numbers(things=[1, Late()])))
    assert text.endswith("dataset.things[1].kept cannot be pickled: it is a lambda")
    assert unpicklable_parts(torch.utils.data.DataLoader(Numbers(one=1))) == []


def test_a_large_set_is_copied_without_the_shards_that_cannot_be(tmp_path: Path) -> None:
    urls = [str(tmp_path / f"{number}.tar") for number in range(2)]
    write_tar(Path(urls[0]), [(f"{number}.txt", b"a caption") for number in range(30)])
    write_tar(Path(urls[1]), [])
    evidence, options = scanned(urls, "headers")
    with scratch("check") as folder:
        tars = SmallTars(folder, allow_pipe=options.allow_pipe)
        small = shards_to_read(evidence, tars, 7)
        for shard in evidence.shards:
            # It may be large.
            shard.size = None
        large = shards_to_read(evidence, tars, 7)
    assert (small.are_copies, [len(samples) for samples in small.samples]) == (False, [30, 0])
    assert (large.are_copies, [len(samples) for samples in large.samples]) == (True, [7])
    assert large.note == "the loader was run over copies of 7 samples from 1 shard"
    assert small.request.unique_keys
    assert small.request.shard_keys == (tuple(map(str, range(30))), ())


@pytest.mark.parametrize("pipe", [False, True])
def test_samples_are_copied_from_files_and_from_pipes(pipe: bool, tmp_path: Path) -> None:
    path = tmp_path / "0.tar"
    names = [(f"{number}.{field}", b"%d" % number) for number in range(5) for field in ("a", "b")]
    write_tar(path, names)
    url = Shard.from_text(f"pipe:cat {path}") if pipe else Shard.file(str(path))
    with scratch("check") as folder:
        tars = SmallTars(folder, allow_pipe=True)
        samples = tars.first_in(url, 4)
        copy = tars.tar(samples[3], samples[1])
        assert copy is not None
        copied = SmallTars(folder, allow_pipe=False).first_in(Shard.file(copy), 9)
        members = tars.members(samples[1])
    assert [sample.key for sample in samples] == ["0", "1", "2", "3"]
    assert [sample.key for sample in copied] == ["3", "1"]
    assert members == [("a", b"1"), ("b", b"1")]


def test_samples_of_a_shard_that_is_gone_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "0.tar"
    write_tar(path, [("0.txt", b"x"), ("1.txt", b"y")])
    with scratch("check") as folder:
        tars = SmallTars(folder, allow_pipe=False)
        samples = tars.first_in(Shard.file(str(path)), 2)
        # Cut in the second one.
        path.write_bytes(path.read_bytes()[:1100])
        assert tars.tar(samples[1]) is None
        assert tars.tar(samples[0]) is not None
        path.unlink()
        other = SmallTars(folder / "..", allow_pipe=False)
        assert other.first_in(Shard.file(str(path)), 2) == []
        assert SmallTars(folder, allow_pipe=False).members(samples[0]) == []


def test_a_copy_has_the_name_of_its_shard(tmp_path: Path) -> None:
    tars = SmallTars(tmp_path, allow_pipe=False)
    urls = ("https://host/a/b.tar?token=1", "b.tar.gz", "https://host/", "x" * 300 + ".tar")

    assert [Path(tars.write(b"", url)).name for url in urls[:3]] == ["b.tar", "b.tar", "shard.tar"]
    assert len(Path(tars.write(b"", urls[3])).name) < 256


def test_a_shard_without_a_sample_cannot_be_copied(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", [])
    with scratch("check") as folder, pytest.raises(PipelineError) as caught:
        clone_urls(str(tmp_path / "0.tar"), SmallTars(folder, allow_pipe=False), 4)
    assert str(caught.value) == f"no sample of {tmp_path}/0.tar can be copied: leave this shard out"
