"""Pipelines that lose samples without a caption: those whose fields alone decide it, and others."""

import json
import random

import webdataset as wds

calm = wds.ignore_and_continue


def samples(urls):
    return wds.WebDataset(urls, handler=calm, shardshuffle=False)


def to_tuple(urls):
    return samples(urls).decode("pil", handler=calm).to_tuple("jpg;png", "txt", handler=calm)


def renamed(urls):
    dataset = samples(urls).shuffle(10).decode("pil", handler=calm).rename(image="jpg;png", text="txt", handler=calm)
    return dataset.map(lambda sample: (sample["image"].convert("RGB"), sample["text"]), handler=calm)


def selected(urls):
    return samples(urls).select(lambda sample: "txt" in sample and sample["txt"] != b"").decode("pil", handler=calm)


def pair(sample):
    image = sample["jpg"][:2]
    return image, sample["txt"].strip()


def mapped(urls):
    return samples(urls).map(pair, handler=calm)


def map_dict(urls):
    return samples(urls).map_dict(txt=bytes.decode, handler=calm)


def generated(urls):
    def complete(source):
        for sample in source:
            if "txt" not in sample or "jpg" not in sample:
                continue
            yield sample

    return samples(urls).compose(complete)


def caption_from_json(sample):
    meta = json.loads(sample.get("json", b"{}"))
    if "caption" in meta:
        sample["txt"] = meta["caption"]
    return sample


def some_captions(urls):
    return samples(urls).map(caption_from_json, handler=calm).to_tuple("jpg", "txt", handler=calm)


def guarded(sample):
    if sample["json"].endswith(b'"7"}'):
        return sample["jpg"]
    return sample["txt"]


def some_branches(urls):
    return samples(urls).map(guarded, handler=calm)


def by_chance(urls):
    return samples(urls).select(lambda sample: "txt" in sample or random.random() < 0.002)


def by_key(urls):
    return samples(urls).select(lambda sample: "txt" in sample or sample["__key__"].endswith("77"))


def quiet_errors(urls):
    def readable(source):
        for sample in source:
            try:
                json.loads(sample["json"])["caption"]
            except Exception:
                continue
            yield sample

    return samples(urls).compose(readable)


def picked(urls):
    return wds.WebDataset(
        urls, shardshuffle=False, select_files=lambda name: "77" in name or "txt" not in name
    ).to_tuple("jpg", "txt", handler=calm)


def counted(urls):
    def every_third(source):
        for number, sample in enumerate(source, 1):
            if "txt" in sample or number % 3 == 0:
                yield sample

    return samples(urls).compose(every_third)


CERTAIN = ("to_tuple", "renamed", "selected", "mapped", "map_dict", "generated")
OTHERS = ("some_captions", "some_branches", "by_chance", "by_key", "quiet_errors", "picked", "counted")
