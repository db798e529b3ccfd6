"""Small Stanza networks, trained on an invented language in a few seconds.

They are stored in the layout that Stanza uses.
"""

import contextlib
import io
import json
import logging
import random
import warnings

TAGS = {
    "DET": ("DT", "the a this every"),
    "ADJ": ("JJ", "red small happy old quick green"),
    "NOUN": ("NN", "dog cat house tree car bird river"),
    "VERB": ("VBZ", "sees likes finds chases takes"),
    "PROPN": ("NNP", "Anna Berlin Carl Paris Diana"),
    "ADV": ("RB", "quickly here today often"),
    "ADP": ("IN", "in near with under"),
    "PUNCT": (".", ". !"),
}
TAG_OF = {word: (upos, xpos) for upos, (xpos, words) in TAGS.items() for word in words.split()}
TYPES = {"Anna": "PERSON", "Carl": "PERSON", "Diana": "PERSON", "Berlin": "GPE", "Paris": "GPE"}
DIMS = (
    "--word_emb_dim 16 --char_emb_dim 8 --char_hidden_dim 16 --hidden_dim 24 --num_layers 1".split()
)


def sentence(rng):
    """Return the words of a sentence."""

    def some(tag):
        return rng.choice(TAGS[tag][1].split())

    def phrase():
        if rng.random() < 0.4:
            return [some("PROPN")] + ([some("PROPN")] if rng.random() < 0.3 else [])
        return [some("DET"), *([some("ADJ")] if rng.random() < 0.5 else []), some("NOUN")]

    words = [*phrase(), some("VERB"), *phrase()]
    if rng.random() < 0.4:
        words += [some("ADP"), *phrase()]
    return [*words, *([some("ADV")] if rng.random() < 0.3 else []), some("PUNCT")]


def text_of(sentences):
    """Return running text: no space before a full stop."""
    return " ".join(" ".join(words[:-1]) + words[-1] for words in sentences)


def layout(root, *, trained=True):
    """Write the files that `stanza.download` would write below ``root``; return root.

    These are root/en/.../*.pt and root/resources.json.

    Not ``trained``: in a third of the time, networks that have seen a few sentences twice, and know
    next to nothing.

    The tokeniser and the tagger stand alone, and are trained; the recogniser is trained upon word
    vectors and upon language models of characters, which are random.
    """
    work = root / "work"
    work.mkdir(parents=True)
    (work / "mwt.json").write_text("[]")
    rng = random.Random(5)
    steps = str if trained else lambda _: "2"
    for name, count in (("train", 240), ("dev", 40)) if trained else (("train", 12), ("dev", 4)):
        _write(work / name, [sentence(rng) for _ in range(count)])
    import torch

    level, threads = logging.getLogger("stanza").level, torch.get_num_threads()
    torch.set_num_threads(1)  # several wait for each other more than they compute
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from stanza.models import ner_tagger, tagger, tokenizer

        logging.getLogger("stanza").setLevel(logging.ERROR)
        try:
            beside = _beside(root / "en")
            _train(tokenizer, root, "tokenize", [
                "--lang", "en", "--txt_file", f"{work}/train.txt", "--label_file", f"{work}/train.labels",
                "--dev_txt_file", f"{work}/dev.txt", "--dev_label_file", f"{work}/dev.labels",
                "--dev_conll_gold", f"{work}/dev.conllu", "--conll_file", f"{work}/found.conllu",
                "--mwt_json_file", f"{work}/mwt.json", "--emb_dim", "8", "--hidden_dim", "16",
                "--steps", steps(200), "--eval_steps", steps(200), "--lr0", "0.01", "--report_steps", "1000", "--no_use_mwt",
            ])  # fmt: skip
            _train(tagger, root, "pos", [
                "--lang", "en", "--train_file", f"{work}/train.conllu", "--eval_file", f"{work}/dev.conllu",
                "--output_file", f"{work}/found.conllu", "--no_pretrain", *DIMS, "--transformed_dim", "16",
                "--tag_emb_dim", "8", "--deep_biaff_hidden_dim", "24", "--composite_deep_biaff_hidden_dim", "12",
                "--word_cutoff", "1", "--batch_size", "50", "--max_steps", steps(100), "--eval_interval", steps(100),
                "--fix_eval_interval", "--augment_nopunct", "0.0", "--lr", "0.01",
            ])  # fmt: skip
            _train(ner_tagger, root, "ner", [
                "--train_file", f"{work}/train.json", "--eval_file", f"{work}/dev.json", *DIMS, *beside,
                "--batch_size", "32", "--max_steps", steps(100), "--eval_interval", steps(100), "--lr", "0.3",
                "--dropout", "0.1",
            ])  # fmt: skip
        finally:
            logging.getLogger("stanza").setLevel(level)
            torch.set_num_threads(threads)
    needs = [
        {"model": kind, "package": kind}
        for kind in ("pretrain", "forward_charlm", "backward_charlm")
    ]
    index = {
        "packages": {"default": {"tokenize": "tiny", "pos": "tiny", "optional": {"ner": "tiny"}}},
        **{name: {"tiny": {"dependencies": []}} for name in ("tokenize", "pos")},
        "ner": {"tiny": {"dependencies": needs}},
    }
    (root / "resources.json").write_text(json.dumps({"en": index, "english": {"alias": "en"}}))
    return root


def _beside(folder):
    """Write what the recogniser needs next to itself; return its arguments."""
    import numpy as np
    import torch
    from stanza.models.common.char_model import CharacterLanguageModel
    from stanza.models.common.pretrain import Pretrain
    from stanza.models.common.vocab import CharVocab

    torch.manual_seed(3)
    rows = np.random.default_rng(3).normal(size=(len(TAG_OF), 16))
    vectors = folder / "vectors.txt"
    vectors.parent.mkdir()
    lines = [
        f"{word.lower()} {' '.join(map(str, row.round(4)))}"
        for word, row in zip(TAG_OF, rows, strict=True)
    ]
    vectors.write_text("\n".join([f"{len(lines)} 16", *lines]) + "\n")
    Pretrain(str(folder / "pretrain" / "pretrain.pt"), str(vectors)).load()
    characters = {"char": CharVocab([sorted({*"".join(TAG_OF), " ", "\n"})])}
    sizes = {
        "char_emb_dim": 8,
        "char_hidden_dim": 12,
        "char_num_layers": 1,
        "char_dropout": 0.0,
        "char_rec_dropout": 0.0,
    }
    for direction in ("forward", "backward"):
        network = CharacterLanguageModel(sizes, characters, is_forward_lm=direction == "forward")
        network.save(str(folder / f"{direction}_charlm" / f"{direction}_charlm.pt"))
    return [
        "--wordvec_pretrain_file", f"{folder}/pretrain/pretrain.pt", "--charlm", "--charlm_shorthand", "tiny",
        "--charlm_forward_file", f"{folder}/forward_charlm/forward_charlm.pt",
        "--charlm_backward_file", f"{folder}/backward_charlm/backward_charlm.pt",
    ]  # fmt: skip


def _train(module, root, processor, arguments):
    module.main([
        "--mode", "train", "--shorthand", "en_tiny", "--save_dir", str(root / "en" / processor),
        "--save_name", "tiny.pt", "--cpu", *arguments,
    ])  # fmt: skip


def _write(stem, sentences):
    """Write a corpus in the forms that the three networks are trained on."""
    rows = []
    for words in sentences:
        rows += [f"# text = {text_of([words])}"]
        for at, word in enumerate(words, 1):
            upos, xpos = TAG_OF[word]
            space = "SpaceAfter=No" if at == len(words) - 1 else "_"
            rows += [f"{at}\t{word}\t{word}\t{upos}\t{xpos}\t_\t{at - 1}\tdep\t_\t{space}"]
        rows += [""]
    stem.with_suffix(".conllu").write_text("\n".join(rows) + "\n")
    stem.with_suffix(".txt").write_text(text_of(sentences) + "\n")
    labels = []
    for words in sentences:
        ends = ["0" * (len(word) - 1) + "1" for word in words]
        labels.append("0".join(ends[:-1]) + ends[-1][:-1] + "2")
    stem.with_suffix(".labels").write_text("0".join(labels) + "\n\n")
    stem.with_suffix(".json").write_text(json.dumps([
        [{"id": at, "text": word, "ner": tag} for at, (word, tag) in enumerate(zip(words, entities(words), strict=True), 1)]
        for words in sentences
    ]))  # fmt: skip


def entities(words):
    """Return BIOES tags: neighbours of the same type are one entity."""
    types = [TYPES.get(word) for word in words]
    found = []
    for at, each in enumerate(types):
        begins, ends = (
            at == 0 or types[at - 1] != each,
            at == len(types) - 1 or types[at + 1] != each,
        )
        found.append(
            f"{'S' if begins and ends else 'B' if begins else 'E' if ends else 'I'}-{each}"
            if each
            else "O"
        )
    return found
