"""The arithmetic around models: probabilities, padding, sizes of pictures, names of labels."""

import numpy as np
import pytest

from wdsflow.stages.imaging.geometry import centre, output_size
from wdsflow.stages.scores.model.pictures.geometry import Geometry
from wdsflow.stages.scores.model.transformer.labels import _listed, probabilities

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("logits", "problem", "expected"),
    [
        ([[2.0], [-3.0]], None, [[2.0], [-3.0]]),
        ([[2.0]], "multi_label_classification", [[2.0]]),
        ([[0.0, 0.0], [np.log(3), 0]], None, [[0.5, 0.5], [0.75, 0.25]]),
        ([[0.0, np.log(3)]], "multi_label_classification", [[0.5, 0.75]]),
        ([[0.0, 0.0]], "single_label_classification", [[0.5, 0.5]]),
    ],
)
def test_probabilities_are_those_of_one_label_or_of_each(logits, problem, expected):
    found = probabilities(torch.tensor(logits, dtype=torch.float64), problem)
    assert [each.dtype for each in found] == [np.float32] * len(logits)
    assert np.allclose(found, expected)


def test_texts_are_padded_on_the_right_and_masked():
    from wdsflow.stages.scores.model.transformer.captions import padded

    found = padded([[5, 6, 7], [8], []], "cpu", fill=9)
    assert found["input_ids"].tolist() == [[5, 6, 7], [8, 9, 9], [9, 9, 9]]
    assert found["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert padded([[1], [1, 2]], "cpu")["input_ids"].tolist() == [[1, 0], [1, 2]]


@pytest.mark.parametrize(
    ("fit", "size", "picture", "expected"),
    [
        ("both", (20, 30), (640, 480), (20, 30)),
        ("short", (24, 24), (640, 480), (24, 32)),
        ("short", (24, 24), (480, 640), (32, 24)),
        ("short", (24, 24), (100, 100), (24, 24)),
        ("cover", (20, 30), (60, 20), (20, 60)),
        ("cover", (20, 30), (60, 80), (40, 30)),
        ("within", (20, 30), (60, 20), (10, 30)),
        ("within", (20, 30), (60, 80), (20, 15)),
        ("within", (20, 20), (9000, 1), (0, 20)),
    ],
)
def test_a_picture_is_resized_to_the_size_that_its_model_wants(fit, size, picture, expected):
    assert Geometry(size=size, fit=fit).resized(*picture) == expected


def test_sizes_and_centres_are_torchvisions():
    transforms = pytest.importorskip("torchvision.transforms.functional")
    for width, height in ((7, 5), (5, 7), (9, 9), (640, 481), (481, 640), (1, 100), (100, 1)):
        picture = torch.zeros((3, height, width), dtype=torch.uint8)
        for side in (1, 4, 5, 13):
            assert output_size(width, height, side) == tuple(
                transforms.resize(picture, side).shape[1:]
            )
        assert output_size(width, height, (3, 8)) == (3, 8)
    marked = torch.arange(11 * 14).reshape(1, 11, 14)
    for height, width in ((3, 4), (4, 5), (11, 14), (1, 1), (10, 13)):
        top, left = centre(11, 14, (height, width))
        assert transforms.center_crop(marked, [height, width])[0, 0, 0] == marked[0, top, left]


def test_labels_are_listed_up_to_twenty():
    names = [f"l{number}" for number in range(21)]
    assert _listed(names[:2]) == "'l0', 'l1'"
    assert _listed(names[:20]).endswith("'l19'")
    assert _listed(names).endswith("'l19', ... (21 in all)")
    assert _listed(["x" * 61]) == repr("x" * 60)
