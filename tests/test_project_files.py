"""Files for other tools at the top of the repository are valid.

Their commands are run as they are.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import faults

import wdsflow
from tests.test_readme import files
from wdsflow import example_shards

ROOT = Path(__file__).resolve().parent.parent
FORMS = sorted(
    path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
)
SCHEMAS = {
    "github-actions": [ROOT / "action.yml"],
    "github-workflows": sorted((ROOT / ".github/workflows").glob("*.yml")),
    "github-issue-forms": FORMS,
    "github-issue-config": [ROOT / ".github/ISSUE_TEMPLATE/config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.fixture
def shards(tmp_path):
    faults.captions_in_json(tmp_path / "some shards", example_shards.draw(8))
    return tmp_path


@pytest.mark.parametrize(("schema", "paths"), SCHEMAS.items(), ids=SCHEMAS)
def test_files_for_github_follow_their_schema(schema, paths, capsys):
    assert against(schema, *paths) == 0, capsys.readouterr().out


def test_workflows_on_the_pages_follow_their_schema_and_use_inputs_that_the_action_has(
    tmp_path, capsys
):
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    shown = {name: text for name, text in files().items() if name.startswith(".github/workflows/")}
    assert len(shown) == 2
    for name, text in shown.items():
        path = tmp_path / Path(name).name
        path.write_text(text)
        assert against("github-workflows", path) == 0, capsys.readouterr().out
        steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
        given = [set(step["with"]) for step in steps if step.get("uses") == "./wdsflow"]
        assert given
        assert [names - set(inputs) for names in given] == [set()]


def against(schema, *paths):
    from check_jsonschema import main

    with pytest.raises(SystemExit) as ended:
        main(["--builtin-schema", f"vendor.{schema}", *map(str, paths)])
    return ended.value.code


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("given", "status", "printed"),
    [
        ({"URLS": "shards/{000..003}.tar"}, 1, "0 of 8 samples"),
        (
            {"URLS": "shards/000.tar\nshards/001.tar", "OPTIONS": "--level names  --for datasets"},
            1,
            "0 of 4 samples",
        ),
        ({"URLS": "$(touch hacked) shards/000.tar; touch hacked"}, 2, "wdsflow: "),
        ({"URLS": "shards/{000..003}.tar", "FORMAT": "sarif"}, 1, "0 of 8 samples"),
    ],
)
def test_the_command_of_the_action_reports_and_runs_nothing_of_its_inputs(
    given, status, printed, shards
):
    (shards / "some shards").rename(shards / "shards")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, validate = action["runs"]["steps"][1:]
    assert install["run"] == 'python -m pip install "$GITHUB_ACTION_PATH"'
    defaults = {name.upper(): value.get("default", "") for name, value in action["inputs"].items()}
    assert {f"${{{{ inputs.{name.lower()} }}}}" for name in validate["env"]} == set(
        validate["env"].values()
    )
    environment = {**os.environ, **defaults, **given, "GITHUB_OUTPUT": str(shards / "outputs")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", validate["run"]]
    done = subprocess.run(
        shell, cwd=shards, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done
    assert printed in done.stdout + done.stderr
    assert not (shards / "hacked").exists()
    if defaults["FORMAT"] != environment["FORMAT"]:
        assert (shards / "outputs").read_text() == "report=wdsflow.sarif\n"
        assert (shards / "wdsflow.sarif").is_file()


def test_the_hook_of_pre_commit_judges_the_shards_that_it_is_given(shards):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["language"], hook["require_serial"]) == (
        "wdsflow-validate",
        "python",
        True,
    )
    (used,) = yaml.safe_load(files()[".pre-commit-config.yaml"])["repos"]
    assert [each["id"] for each in used["hooks"]] == [hook["id"]]
    names = ["some shards/000.tar", "some shards/001.tar", "notes.md", "a.tar.gz.txt"]
    given = [name for name in names if re.search(hook["files"], name)]
    assert given == names[:2]
    program, *words = hook["entry"].split()
    run = [str(Path(sys.executable).parent / program), *words, *hook["args"], *given]
    done = subprocess.run(run, cwd=shards, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "2 shards, 4 samples" in done.stdout


def test_the_citation_has_the_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == wdsflow.__version__


@pytest.mark.parametrize(
    "page", ["docs/architecture.md", "docs/code-map.md", "docs/extending.md", "CONTRIBUTING.md"]
)
def test_pages_for_developers_name_files_that_there_are(page):
    named = re.findall(
        r"`((?:wdsflow|stages|validate|tests|scripts|docs)/[\w./]*)`", (ROOT / page).read_text()
    )
    assert len(named) > 10
    assert [name for name in dict.fromkeys(named) if not (ROOT / name).exists()] == []
