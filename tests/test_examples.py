"""The recipes and job files of the examples are valid.

Those that need no cluster are run as they are.
"""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import numpy as np
import pytest
import yaml
from support import faults
from support.tiny_clip.recipe import CONFIG, CONFIG_FILE

from tests.printed.pasted import run
from tests.test_readme import ROOT, files, install, scenes_drawn
from wdsflow.cli.main import _split_at_dashes
from wdsflow.filtering.recipe.recipe import canonical_recipe
from wdsflow.filtering.recipe.recipe_file import merged_recipe

if TYPE_CHECKING:
    from wdsflow.stages.scores import BatchScore

EXAMPLES = ROOT / "docs" / "examples"
DATACOMP = files(EXAMPLES / "datacomp-small.md")
CLUSTER = files(EXAMPLES / "slurm-and-kubernetes.md")


@pytest.mark.parametrize("name", ["basic.yaml", "clip.yaml"])
def test_the_recipes_of_datacomp_are_recipes(name, tmp_path):
    (tmp_path / name).write_text(DATACOMP[name])
    recipe = canonical_recipe(merged_recipe(tmp_path / name, {}))
    assert recipe.where or recipe.scores
    schema = json.loads((ROOT / "docs/recipe.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(DATACOMP[name]), schema)


def test_the_score_of_the_text_based_baseline_is_datacomps(tmp_path, monkeypatch):
    class Synset:
        def __init__(self, offset: int) -> None:
            self.offset = lambda: offset

    known = {
        "dog": [Synset(7), Synset(1)],
        "dogs": [Synset(7)],
        "run": [Synset(3), Synset(7)],
        "tree": [Synset(9)],
    }
    wordnet = types.SimpleNamespace(synsets=lambda word: known.get(word, []))
    monkeypatch.setitem(sys.modules, "nltk", types.ModuleType("nltk"))
    monkeypatch.setitem(sys.modules, "nltk.corpus", types.SimpleNamespace(wordnet=wordnet))
    module = types.ModuleType("datacomp_text")
    monkeypatch.setitem(sys.modules, "datacomp_text", module)
    exec(DATACOMP["datacomp_text.py"], vars(module))
    (tmp_path / "offsets.txt").write_text("7\n9\n")
    score = module.HasEntity(synsets=str(tmp_path / "offsets.txt"))

    def theirs(text: str) -> bool:  # baselines/apply_filter.py, does_contain_text_entity
        for word in text.split():
            synsets = wordnet.synsets(word)
            if len(synsets) == 0:
                continue
            if synsets[0].offset() in {7, 9}:
                return True
        return False

    captions = ["a dog", "dogs run", "I run", "nothing here", "", "Dog", "a tree, and", "tree"]
    assert [score.of(text) for text in captions] == list(map(theirs, captions))
    assert [theirs(text) for text in captions] == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
        True,
    ]


@pytest.mark.deep
def test_the_score_of_the_image_based_baseline_finds_the_nearest_cluster(tmp_path, monkeypatch):
    import torch

    (tmp_path / "datacomp_scores.py").write_text(DATACOMP["datacomp_scores.py"])
    spec = importlib.util.spec_from_file_location(
        "datacomp_scores", tmp_path / "datacomp_scores.py"
    )
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "datacomp_scores", module)
    spec.loader.exec_module(module)
    (tmp_path / CONFIG_FILE).write_text(json.dumps(CONFIG))
    np.save(tmp_path / "wanted.npy", np.array([1]))
    np.save(tmp_path / "centroids.npy", np.zeros((2, 128)))
    paths = {name: str(tmp_path / f"{name}.npy") for name in ("wanted", "centroids")}
    score: BatchScore = module.InWantedCluster(
        model=f"local-dir:{tmp_path}", pretrained="", **paths
    )
    images = [
        np.zeros((64, 64, 3), np.uint8),
        np.random.default_rng(0).integers(0, 255, (80, 70, 3), np.uint8),
    ]
    with torch.inference_mode():
        clip, transform, _, wanted = score.load("cpu")
        pixels = torch.stack([transform(module.Image.fromarray(image)) for image in images])
        # Each image is its own cluster; the second is wanted.
        centroids = clip.encode_image(pixels, normalize=True)
        assert score.score((clip, transform, centroids, wanted), images) == [0.0, 1.0]


@pytest.mark.deep
def test_the_recipe_of_the_image_based_baseline_names_the_score_of_its_page(tmp_path):
    (tmp_path / "image.yaml").write_text(DATACOMP["image.yaml"])
    install(tmp_path)
    script = "from wdsflow.cli.main import main; main(['filter', 'x.tar', '--recipe', 'image.yaml', '--print-recipe'])"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "in_wanted_cluster" in done.stdout


@pytest.fixture
def data(tmp_path):
    faults.valid(tmp_path / "shards", scenes_drawn())
    return tmp_path


def job(script, data, **variables):
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "DATA": str(data), **variables}
    return subprocess.run(
        ["bash", "-c", script],
        cwd=data,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.deep  # the pods below run the same command
def test_the_tasks_of_the_slurm_array_filter_all_shards_together(data):
    # What this machine has.
    script = CLUSTER["filter.sbatch"].replace("--memory 56GiB", "--memory 4GiB")
    slices = re.findall(r"^#SBATCH --array=0-(\d+)$", script, re.MULTILINE)
    assert f"${{SLICES:-{int(slices[0]) + 1}}}" in script

    def task(number: int) -> None:
        given = {"SLURM_ARRAY_TASK_ID": str(number), "SLICES": "2", "SLURM_CPUS_PER_TASK": "1"}
        done = job(script, data, **given)
        assert done.returncode == 0, done.stderr

    task(1)
    refused = job(CLUSTER["merge.sbatch"], data)  # as after a task that was killed
    assert refused.returncode == 1
    assert "slice 0: missing" in refused.stdout
    assert "--shard-index 0" in refused.stdout.splitlines()[-1]
    task(0)
    merged = job(CLUSTER["merge.sbatch"], data)
    assert merged.returncode == 0, merged.stderr
    assert "40  kept" in merged.stdout
    assert json.loads((data / "kept" / "sizes.json").read_text()) == {
        f"{n:03d}.tar": 10 for n in range(4)
    }


def pod_of(name):
    """Return the spec of a Job, and the container of its pods.

    Asserts what every Job needs.
    """
    manifest = yaml.safe_load(CLUSTER[name])
    assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "Job")
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", manifest["metadata"]["name"])
    pods = manifest["spec"]["template"]["spec"]
    assert pods["restartPolicy"] in ("Never", "OnFailure")  # a Job takes no other
    (pod,) = pods["containers"]
    volumes = {volume["name"] for volume in pods["volumes"]}
    assert {mount["name"] for mount in pod["volumeMounts"]} == volumes
    return manifest["spec"], pod


@pytest.mark.deep
def test_the_pods_of_the_kubernetes_jobs_filter_their_slices_and_merge_them(data):
    spec, pod = pod_of("filter-job.yaml")
    assert spec["completionMode"] == "Indexed"
    assert f"--shard-count {spec['completions']}" in pod["args"][0]
    assert pod["command"] == ["bash", "-c"]
    small = (
        pod["args"][0]
        .replace("12GiB", "4GiB")
        .replace(f"--shard-count {spec['completions']}", "--shard-count 2")
    )
    assert job(small, data, JOB_COMPLETION_INDEX="1").returncode == 0
    assert [path.name for path in sorted((data / "kept").glob("*.tar"))] == ["001.tar", "003.tar"]
    _, merging = pod_of("merge-job.yaml")
    merge = shlex.join(merging["command"])
    assert job(merge, data).returncode == 1
    assert job(small, data, JOB_COMPLETION_INDEX="0").returncode == 0
    assert job(merge, data).returncode == 0
    assert (data / "kept" / "__len__").read_text() == "40\n"


def test_the_validation_job_ends_with_the_status_of_the_report(data):
    assert job(CLUSTER["validate.sbatch"], data).returncode == 0
    assert "TRAINS" in (data / "report.txt").read_text()


def test_the_training_job_is_a_command_that_this_program_takes(data):
    script = CLUSTER["train.sbatch"]
    assert subprocess.run(["bash", "-n", "-c", script], check=False).returncode == 0
    (line,) = re.findall(r"^srun (wdsflow train .*)$", script, re.MULTILINE)
    words = shlex.split(line)[1:]
    own, _ = _split_at_dashes(words)
    assert "--checkpoint-every" in own
    small = ["train", "--dry-run", *words[1:], "--warmup", "2", "--name", "x", "--batch-size", "4"]
    small[small.index("--resume") + 1] = "None"
    done = run([word for word in small if word not in ("--resume", "None")], data)
    assert done.status == 0, done
    assert "MAY TRAIN  up to 40 of 40" in done.out
