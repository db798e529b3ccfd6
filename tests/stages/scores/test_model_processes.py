import ast
import json
import multiprocessing
import os
import pickle
import subprocess
import sys

import pytest
from support.one_score import compute

from tests.pictures import encoded, photo
from tests.stages.scores.fields import made
from wdsflow.stages.scores import View

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")
pytest.importorskip("transformers", minversion="5", reason="transformers is not installed")

from tests.stages.scores import tiny_models

FIELDS = {
    "0.png": encoded(photo(64, 48, 1), "PNG"),
    "1.png": encoded(photo(48, 64, 2), "PNG"),
    "json": json.dumps({"texts": ["a red cat", "two dogs"]}).encode(),
}


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Scores with no setting left as it is."""
    root = tmp_path_factory.mktemp("models")
    clip, place = tiny_models.clip(root / "clip"), {"caption": "json:texts"}
    return [
        made(
            "clip_similarity",
            model=clip,
            pretrained="",
            reduce="max",
            flip="both",
            image="1.png;0.png",
            **place,
        ),
        made("zero_shot", model=clip, pretrained="", labels="a cat;a dog;two", image="*.png"),
        made("classify", model=tiny_models.image_classifier(root / "image"), label="nsfw"),
        made(
            "image_text_match",
            model=tiny_models.matcher(root / "match"),
            reduce="min",
            flip="vertical",
            **place,
        ),
        made(
            "text_classify",
            model=tiny_models.text_classifier(root / "text"),
            label="odd",
            max_tokens=4,
            **place,
        ),
        made(
            "caption_perplexity",
            model=tiny_models.language_model(root / "language"),
            max_tokens=3,
            **place,
        ),
    ]


# In a process of its own, as runs have it: one that has computed with torch must not be forked.
POOL = """
import multiprocessing, pickle, sys
from concurrent.futures import ProcessPoolExecutor
from support.one_score import compute
if __name__ == "__main__":
    scores, fields = pickle.loads(sys.stdin.buffer.read())
    with ProcessPoolExecutor(1, multiprocessing.get_context(sys.argv[1])) as pool:
        found = [pool.submit(compute, score, fields) for score in scores]
        print(repr([each.result() for each in found]))
"""


def python(code, *arguments, given):
    """Run code in a fresh interpreter; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        run, input=pickle.dumps(given), capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return ast.literal_eval(done.stdout.decode())


@pytest.mark.deep
@pytest.mark.parametrize(
    "method",
    [
        pytest.param("spawn", marks=pytest.mark.deep),
        "forkserver",
        pytest.param("fork", marks=pytest.mark.deep),
    ],
)
def test_scores_are_the_same_in_a_process_of_any_kind(scores, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    expected = [compute(score, FIELDS) for score in scores]
    found = python(POOL, method, given=(scores, FIELDS))
    assert found == [pytest.approx(each, abs=2e-5, rel=1e-4) for each in expected]


@pytest.mark.usefixtures("new_interpreters")
def test_making_a_score_and_telling_its_identity_loads_no_library(scores):
    heavy = ("torch", "numpy", "PIL", "transformers", "open_clip")
    code = (
        "import pickle, sys; scores = pickle.loads(sys.stdin.buffer.read()); [score.identity() for score in scores];"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    assert python(code, given=scores) == []


# What a decoder does, where the process of the models has told it all that it has to know.
DECODER = """
import pickle, sys
scores, facts, fields = pickle.loads(sys.stdin.buffer.read())
from wdsflow.stages.scores import View
for model, told in facts:
    model.accept_facts(told)
view = View(fields)
items = [[request.make() for request in score.requests(view)] for score in scores]
def plain(item):
    return [plain(each) for each in item] if isinstance(item, tuple) else item.tolist()
print(repr(([plain(each) for some in items for each in some],
    [name for name in ("torch", "torchvision", "transformers", "open_clip") if name in sys.modules])))
"""


@pytest.mark.usefixtures("new_interpreters")
def test_decoders_make_the_same_items_without_the_libraries_of_the_models(scores):
    models = [model for score in scores if score.name != "zero_shot" for model in score.models()]
    facts = [(model, model.facts()) for model in models]
    asked = [score for score in scores if score.name != "zero_shot"]
    found, loaded = python(DECODER, given=(asked, facts, FIELDS))
    assert loaded == []
    view = View(FIELDS)
    expected = [request.make() for score in asked for request in score.requests(view)]
    assert found == [
        [part.tolist() for part in each] if isinstance(each, tuple) else each.tolist()
        for each in expected
    ]
