"""Iterable datasets of Hugging Face, for the question of --check whether they resume."""

import tarfile

import datasets


def rows(urls):
    for url in urls:
        with tarfile.open(url) as tar:
            for member in tar:
                if member.name.endswith(".txt"):
                    yield {"key": member.name[:-4], "text": tar.extractfile(member).read().decode()}


def hf_right(urls):
    return datasets.IterableDataset.from_generator(rows, gen_kwargs={"urls": urls})


def hf_shuffled(urls):
    """Its state leaves out the shuffle buffer."""
    return hf_right(urls).shuffle(seed=1, buffer_size=20)
