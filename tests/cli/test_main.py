import io
import subprocess
import sys
from importlib import import_module
from typing import Any

import click
import pytest

import wdsflow
from wdsflow.cli import main as command_line
from wdsflow.cli.doctor import Form
from wdsflow.cli.main import COMMANDS, main
from wdsflow.cli.shared.typed import Typed, unused_path
from wdsflow.text.options import MAIN, PANELS


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_the_version_is_told(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"wdsflow {wdsflow.__version__}\n"


def test_a_character_that_the_terminal_has_not_is_escaped(tmp_path, monkeypatch):
    shard = tmp_path / "é.tar"
    shard.write_bytes(bytes(1024))
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert run("validate", str(shard)) == 1
    sys.stdout.flush()
    assert b"\\xe9.tar" in written.getvalue()


def test_help_names_every_command_with_a_whole_sentence(capsys):
    assert run("--help") == 0
    shown = capsys.readouterr().out
    for name in ("validate", "inspect", "explain", "doctor", "train"):
        assert f"  {name} " in shown
    assert "..." not in shown.partition("Commands:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_lines_of_their_docstrings(name):
    command = getattr(import_module(f"wdsflow.cli.{name}"), name)
    assert command.__doc__.partition("\n")[0] == COMMANDS[name]


@pytest.mark.usefixtures("new_interpreters")
def test_help_imports_no_command_and_parsing_no_pydantic():
    script = "import sys; from wdsflow.cli.main import main\ntry: main(sys.argv[1:])\nexcept SystemExit: print(*sys.modules)"
    for words, names in (
        (["--help"], {"wdsflow.cli.shared.typed", "rich", "pydantic"}),
        (["filter", "--help"], {"pydantic", "rich"}),
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
        )
        assert names.isdisjoint(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("name", ["validate", "inspect", "explain", "doctor", "train"])
def test_every_command_has_help_that_names_its_exit_status_or_its_argument(capsys, name):
    assert name in COMMANDS
    assert run(name, "--help") == 0
    shown = capsys.readouterr().out
    assert "Usage: wdsflow" in shown
    assert "Exit status" in shown or "CODE" in shown


# Seeds, and numbers whose limits depend on other options.
ANY_NUMBER = {
    *("inspect --seed", "pack --shuffle", "reshard --shuffle", "validate --seed"),
    *("reshard --folds", "reshard --samples", "reshard --shards"),
    *("train --k", "train --stall-after"),
}


def test_numbers_of_options_have_a_least():
    group = command_line.wdsflow()
    unlimited = set()
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        for option in command.params:
            kind = option.type
            is_number = isinstance(kind, (click.types.IntParamType, click.types.FloatParamType))
            if is_number and getattr(kind, "min", None) is None:
                unlimited.add(f"{name} {option.opts[0]}")
    assert unlimited == ANY_NUMBER


@pytest.mark.parametrize("name", ["filter", "train", "validate"])
def test_help_groups_all_options_and_begins_with_the_dozen_most_used(capsys, name):
    group = command_line.wdsflow()
    command = group.get_command(click.Context(group), name)
    assert command is not None
    options: list[Any] = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.name for each in options if each.panel not in PANELS] == []
    assert 8 <= sum(each.panel == MAIN for each in options) <= 12
    assert run(name, "--help") == 0
    titles = [
        line.rstrip(":")
        for line in capsys.readouterr().out.splitlines()
        if line.endswith(":") and line[0] != " "
    ]
    assert next(title for title in titles if title != "Arguments") == MAIN
    assert {each.panel for each in options} <= set(titles)


@pytest.mark.parametrize(
    "words", [["valdate"], ["validate", "--nonsense"], ["inspect"], ["doctor", "x"]]
)
def test_wrong_use_is_status_2_and_no_traceback(capsys, words):
    assert run(*words) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert "Error" in shown


def test_a_wrong_command_names_the_nearest(capsys):
    assert run("valdate") == 2
    assert "validate" in capsys.readouterr().err


def test_the_command_runs_as_a_program_of_its_own():
    script = "from wdsflow.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("wdsflow ")


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "wdsflow", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"wdsflow {wdsflow.__version__}\n"


def test_an_interrupt_is_reported_in_one_line_with_status_130(monkeypatch, capsys):
    import wdsflow.cli.doctor

    def interrupted(typed: Typed, form: Form) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wdsflow.cli.doctor, "doctor", interrupted)
    assert run("doctor") == 130
    assert capsys.readouterr().err == "wdsflow: interrupted\n"


@pytest.mark.parametrize(
    "words",
    [
        ("filter", "x", "-o", "y", "--where", "a", "--where", "b"),
        ("filter", "x", "-o", "y", "--output", "z"),
    ],
)
def test_an_option_with_two_values_is_refused(capsys, words):
    assert run(*words) == 2
    assert (
        "is given twice, and can have one value: leave one of them out" in capsys.readouterr().err
    )


def test_an_option_that_is_a_list_and_a_flag_may_be_given_twice(capsys):
    assert (
        run(
            "validate",
            "none.tar",
            "--ignore",
            "W001",
            "--ignore",
            "W002",
            "--allow-pipe",
            "--allow-pipe",
        )
        == 2
    )
    assert "none.tar: no such file" in capsys.readouterr().err


def test_a_wrong_choice_is_named_without_the_words_of_a_library(capsys):
    with pytest.raises(SystemExit):
        main(["validate", "a.tar", "--level", "ful"])
    assert (
        "Invalid value for '--level': 'ful' is not one of 'auto', 'names', 'headers', 'full'."
        in capsys.readouterr().err
    )


def test_a_proposed_output_gets_the_lowest_number_that_is_free(tmp_path):
    for name in ("out", "out-2", "out-3"):
        assert unused_path(tmp_path / "out") == tmp_path / name
        (tmp_path / name).mkdir()
