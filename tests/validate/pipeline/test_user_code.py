"""How the user's pipeline is found and built, and what an exception of its code shows."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tarfile import TarInfo
from typing import Any

import pytest

from tests.case_names import without_address
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.pipeline.run.raised_errors import cause_of, key_in_frames
from wdsflow.validate.pipeline.user_code.iterables import Items, is_map_style, is_ray
from wdsflow.validate.pipeline.user_code.load_pipeline import (
    PipelineError,
    build,
    check_built,
    failure_text,
    load_object,
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of user code; what an import of it changes in this process is taken back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "", raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("mine_"):
            del sys.modules[name]


PARSES = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--size", required=True)
parser.parse_args([])
"""
PARSES_CHOICE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int)
parser.parse_args(["--size", "x"])
"""
MANY = "\n".join(f"name{number:02d} = {number}" for number in range(13))
UNDER_MAIN = "do that under if __name__ == '__main__'"


@pytest.mark.parametrize(
    ("file", "code", "spec", "said"),
    [
        ("", "", "mine_a", "mine_a: write --pipeline module:object or --pipeline train.py:make"),
        ("", "", ":make", ":make: write --pipeline module:object or --pipeline train.py:make"),
        ("", "", "mine_a:", "mine_a:: write --pipeline module:object or --pipeline train.py:make"),
        (
            "",
            "",
            "mine_a.part:make",
            "there is no module mine_a.part here; for a file write its path: --pipeline path/to/train.py:make",
        ),
        ("", "", "mine_a.py:make", "there is no file mine_a.py"),
        ("mine_a.txt", "", "./mine_a.txt:make", "mine_a.txt is not a Python file"),
        ("mine_a.py", "_own = 1", "mine_a.py:make", "mine_a.py has no make; it has: nothing"),
        (
            "mine_a.py",
            MANY,
            "mine_a:make.more",
            "mine_a has no make.more; it has: " + ", ".join(f"name{n:02d}" for n in range(12)),
        ),
        (
            "mine_a.py",
            "x = 1\n)",
            "mine_a:make",
            "mine_a cannot be imported: {here}/mine_a.py:2: unmatched ')'",
        ),
        (
            "mine_a.py",
            "\nimport mine_missing",
            "mine_a:make",
            "mine_a cannot be imported: mine_a.py:2: ModuleNotFoundError: No module named 'mine_missing'",
        ),
        (
            "mine_a.py",
            "import mine_a.part",
            "mine_a:make",
            "mine_a cannot be imported: mine_a.py:1: ModuleNotFoundError: No module named 'mine_a.part'; 'mine_a' is not a package",
        ),
        (
            "mine_a.py",
            "\n1 / 0",
            "mine_a:make",
            "mine_a cannot be imported: mine_a.py:2: ZeroDivisionError: division by zero",
        ),
        (
            "mine_a.py",
            "raise MemoryError",
            "mine_a:make",
            "mine_a cannot be imported: mine_a.py:1: MemoryError without a message; it needs more memory than it may take on this machine: validate where it will train",
        ),
        (
            "mine_a.py",
            PARSES,
            "mine_a.py:make",
            f"mine_a.py cannot be imported: mine_a.py:6: it parses a command line when imported (--data, --size are required): {UNDER_MAIN}",
        ),
        (
            "mine_a.py",
            PARSES_CHOICE,
            "mine_a.py:make",
            f"mine_a.py cannot be imported: mine_a.py:5: it parses a command line when imported (argument --size: invalid int value: 'x'): {UNDER_MAIN}",
        ),
        (
            "mine_a.py",
            "raise SystemExit(3)",
            "mine_a.py:make",
            "mine_a.py cannot be imported: mine_a.py:1: SystemExit: 3",
        ),
    ],
)
def test_a_pipeline_that_is_not_found_or_not_imported_is_refused_with_the_reason(
    file: str, code: str, spec: str, said: str, here: Path
) -> None:
    if file:
        (here / file).write_text(code)

    with pytest.raises(PipelineError) as caught:
        load_object(spec)

    assert str(caught.value) == said.format(here=here)


def test_an_object_in_a_class_of_a_module_or_a_file_is_found(here: Path) -> None:
    (here / "mine_a.py").write_text("import sys\nclass Sets:\n    words = list(sys.argv)\n")

    assert load_object("mine_a:Sets.words") == sys.argv
    assert load_object("./mine_a.py:Sets.words") == ["mine_a.py"]


class Stage:
    """Looks like a stage object."""

    def run(self, source: Any) -> Any:
        return source


def make() -> None:
    """Stands for the function of the user."""


@pytest.mark.parametrize(
    ("built", "said"),
    [
        (None, "make returned None: is a return missing?"),
        (
            {"train": [], "val": []},
            "make returned a dict of 'train', 'val'; return one of them",
        ),
        (([1], [2]), "make returned a tuple of 2 pipelines; return the one to judge"),
        (
            [[1], 7],
            "make returned a list with a value of type int; return the pipeline alone",
        ),
        (
            ([1], Stage(), "text"),
            "make returned a tuple with a value of type str; return the pipeline alone",
        ),
    ],
    ids=without_address,
)
def test_what_a_function_returns_instead_of_one_pipeline_is_refused(
    built: object, said: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        check_built(make, built)

    assert str(caught.value) == said


@pytest.mark.parametrize(
    "built",
    [7, iter([]), [1, 2], [], [[1], map, Stage()], ["a.tar", map], [7, [1]]],
    ids=without_address,
)
def test_one_pipeline_or_its_stages_are_accepted(built: object) -> None:
    check_built(make, built)


def test_a_function_gets_the_shards_as_they_are_if_it_takes_any() -> None:
    url = single_shard("https://user:secret-word@host/0.tar")

    def named_only(*, workers: int = 2, **more: object) -> object:
        return workers, more

    class Loader:
        def __iter__(self) -> Iterator[object]:
            return iter([])

        def __call__(self, urls: object) -> object:
            raise AssertionError("a pipeline was called")

    class NoSignature:
        __signature__ = "none"

        def __call__(self, urls: object) -> object:
            return urls

    loader = Loader()
    assert build(list, [url]) == [url.exact]
    assert build(lambda urls: urls, [url]) == [url.exact]
    assert build(NoSignature(), ["0.tar"]) == ["0.tar"]
    assert build(named_only, [url]) == (2, {})
    assert build(loader, [url]) is loader
    assert build("text", [url]) == "text"


def test_a_program_that_ends_by_itself_is_not_said_to_parse_a_command_line() -> None:
    def error(message: str) -> None:
        raise SystemExit(message)

    with pytest.raises(SystemExit) as caught:
        error("data is missing")

    assert failure_text(caught.value, "called") == "SystemExit: data is missing"


def test_what_gives_items_by_number_or_key_is_map_style() -> None:
    class Numbered:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> str:
            return "ab"[index]

    class Keyed(dict[str, int]):
        pass

    class WithoutLength:
        def __getitem__(self, index: int) -> int:
            return index

    assert [is_map_style(each) for each in (Numbered(), Keyed(), {}, [], Numbered, 7)] == [
        True, True, True, False, False, False
    ]  # fmt: skip
    assert not is_map_style(WithoutLength())
    seen: list[object] = []
    for dataset, items, indices in (
        (Numbered(), ["a", "b"], [0, 1]),
        (Keyed(x=5, y=6), [5, 6], ["x", "y"]),
    ):
        listed = Items(dataset)  # type: ignore[arg-type]
        seen.clear()
        listed.before_item = seen.append
        assert (list(listed), seen) == (items, indices)
    assert Items(Keyed()).__name__ == "Keyed"


def test_a_dataset_of_ray_is_known_by_its_module() -> None:
    in_ray = type("Dataset", (), {"__module__": "ray.data.dataset", "iter_rows": print})
    elsewhere = type("Dataset", (), {"__module__": "mine.data", "iter_rows": print})

    assert [is_ray(in_ray()), is_ray(elsewhere())] == [True, False]


def wrapped(error: BaseException, **facts: Any) -> BaseException:
    """Return an error as Ray wraps it."""
    kind = type("RayTaskError", (Exception,), {"__module__": "ray.exceptions"})
    result: BaseException = kind("wrapped")
    for name, value in facts.items() or {"cause": error}.items():
        setattr(result, name, value)
    return result


def test_the_error_that_ray_has_wrapped_is_found() -> None:
    error = KeyError("txt")
    lone = wrapped(error, cause="a text")

    assert cause_of(error) is error
    assert cause_of(wrapped(wrapped(error))) is error
    assert cause_of(wrapped(error, __cause__=error)) is error
    assert cause_of(lone) is lone
    deep = error
    for _ in range(9):
        deep = wrapped(deep)
    assert type(cause_of(deep)).__name__ == "RayTaskError"


KEYS = {"000007", "a/b", "d/"}
# As many values of a dict are looked at.
MOST: dict[object, object] = dict.fromkeys(range(16))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"__key__": "of no shard", "x": "000007"}, "of no shard"),
        ({"x": 5, "y": "000007"}, "000007"),
        ({"x": "000007.txt"}, ""),
        ({**MOST, "x": "000007"}, ""),
        ({**MOST, 15: "000007"}, "000007"),
        (TarInfo("000007.seg.png"), "000007"),
        ("a/b.txt", "a/b"),
        ("a/b", "a/b"),
        ("d/", "d/"),
        ("000008.txt", ""),
        (".txt", ""),
        (7, ""),
    ],
    ids=without_address,
)
def test_the_sample_of_an_error_is_found_in_the_variables_of_the_users_functions(
    value: object, key: str
) -> None:
    def fails(member: object) -> None:
        raise ValueError("here")

    with pytest.raises(ValueError, match="here") as caught:
        fails(value)

    # The frame of this test has the key and the value as well: only that of the function counts.
    trace = caught.value.__traceback__
    assert trace is not None
    assert key_in_frames(caught.value.with_traceback(trace.tb_next), KEYS) == key
