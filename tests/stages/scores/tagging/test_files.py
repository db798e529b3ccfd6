import json
import re

import pytest

from tests.stages.scores.fields import made
from wdsflow.models.loaded import LoadedModels, ModelError
from wdsflow.stages.scores.model.tagging.stanza_files import stanza_files

NER_NEEDS = {"pretrain": "glove", "forward_charlm": "news", "backward_charlm": "news"}
INDEX = {
    "en": {
        "packages": {
            "default": {
                "tokenize": "combined",
                "mwt": "combined",
                "pos": "large",
                "optional": {"ner": "onto"},
            },
            "fast": {"tokenize": "combined", "pos": "small"},
        },
        "pos": {
            "large": {"dependencies": [{"model": "pretrain", "package": "glove"}]},
            "small": {},
        },
        "ner": {
            "onto": {
                "dependencies": [
                    {"model": kind, "package": name} for kind, name in NER_NEEDS.items()
                ]
            }
        },
        "tokenize": {"combined": {}},
    },
    "english": {"alias": "en"},
}
FILES = "tokenize/combined mwt/combined pos/large pos/small ner/onto pretrain/glove forward_charlm/news backward_charlm/news"


@pytest.fixture
def folder(tmp_path):
    for name in FILES.split():
        path = tmp_path / "en" / f"{name}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (tmp_path / "resources.json").write_text(json.dumps(INDEX))
    return tmp_path


def found(folder, processor="pos", **settings):
    given = {
        "model": str(folder),
        "lang": "en",
        "package": "default",
        "tokenizer": "",
        "pretokenized": False,
        **settings,
    }
    root = folder if folder.is_dir() else folder.parents[2]
    return {
        name: str(path.relative_to(root / "en"))
        for name, path in stanza_files(processor, **given).items()
    }


TOKENIZER = {"tokenize_model_path": "tokenize/combined.pt", "mwt_model_path": "mwt/combined.pt"}
LARGE = {"pos_model_path": "pos/large.pt", "pos_pretrain_path": "pretrain/glove.pt"}


def test_the_index_says_which_files_make_a_package_and_what_they_need(folder):
    assert found(folder) == {**TOKENIZER, **LARGE}
    assert found(folder, lang="english") == found(folder)
    assert found(folder, pretokenized=True) == LARGE
    assert found(folder, package="fast") == {
        "tokenize_model_path": "tokenize/combined.pt",
        "pos_model_path": "pos/small.pt",
    }
    assert found(folder, "ner", pretokenized=True) == {
        "ner_model_path": "ner/onto.pt",
        **{f"ner_{kind}_path": f"{kind}/{name}.pt" for kind, name in NER_NEEDS.items()},
    }


def test_a_file_is_taken_instead_of_the_packages_and_finds_what_lies_beside_it(folder):
    small = folder / "en" / "pos" / "small.pt"
    assert found(folder, model=str(small)) == {**TOKENIZER, "pos_model_path": "pos/small.pt"}
    assert found(folder, tokenizer=str(small))["tokenize_model_path"] == "pos/small.pt"
    alone = folder / "en" / "tagger.pt"
    alone.write_bytes(b"")
    assert found(folder, model=str(alone), pretokenized=True) == {"pos_model_path": "tagger.pt"}


def test_without_an_index_a_folder_with_one_file_is_clear_and_others_are_not(folder):
    (folder / "resources.json").write_text("{}")
    with pytest.raises(ValueError, match=r"pos has several files \(large.pt, small.pt\)"):
        found(folder)
    (folder / "en" / "pos" / "small.pt").unlink()
    beside = {f"{kind}_path": f"{kind}/{name}.pt" for kind, name in NER_NEEDS.items()}
    assert found(folder) == {
        **TOKENIZER,
        "pos_model_path": "pos/large.pt",
        **{
            f"{processor}_{kind}": path
            for processor in ("tokenize", "pos")
            for kind, path in beside.items()
        },
    }


@pytest.mark.parametrize(
    ("gone", "settings", "message"),
    [
        ("en/pos/large.pt", {}, "no such file: {}/en/pos/large.pt"),
        ("en/pretrain/glove.pt", {}, "no such file: {}/en/pretrain/glove.pt"),
        ("en/tokenize/combined.pt", {}, "no such file: {}/en/tokenize/combined.pt"),
        ("", {"lang": "de"}, "no such file: {}/de/tokenize/*.pt"),
        ("", {"package": "best"}, "no package 'best'; there are default, fast"),
        ("", {"lang": "../en"}, "is not a language code"),
        ("", {"tokenizer": "nowhere.pt"}, "no such file: 'nowhere.pt'"),
    ],
)
def test_what_is_missing_is_named_before_the_first_sample(folder, gone, settings, message):
    if gone:
        (folder / gone).unlink()
    score = made("pos", model=str(folder), **settings)
    message = re.escape(message.format(folder))
    with pytest.raises(ValueError, match=message):
        score.identity()
    with pytest.raises(
        ModelError, match=f"stanza parts of speech, .* cannot be loaded: ValueError: .*{message}"
    ):
        LoadedModels("cpu").prepare(score.models())


def test_an_identity_is_of_what_files_hold_not_of_where_they_lie(folder):
    score = made("pos", model=str(folder))
    before = score.identity()
    moved = folder.rename(folder.with_name("moved"))
    assert made("pos", model=str(moved)).identity() == before
    (moved / "en" / "pretrain" / "glove.pt").write_bytes(b"other")
    assert made("pos", model=str(moved)).identity() != before
    assert made("pos", model=str(moved), max_words=9).identity() != before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs model='FOLDER'"),
        ({"model": "./nowhere"}, "no such file or folder: './nowhere'"),
        ({"model": ".", "tag": "VBZ"}, "'VBZ' is not one of ADJ, ADP"),
        ({"model": ".", "tag": " ; "}, "needs tag='NOUN'"),
        ({"model": ".", "max_words": 0}, "max_words=0 must be from 1 to 5,000"),
        ({"model": ".", "overlong": "drop"}, "is not one of 'split', 'refuse'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        made("pos", **settings)
