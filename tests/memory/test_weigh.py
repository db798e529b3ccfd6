"""The memory that values take."""

import numpy as np
import pytest
from PIL import Image

from wdsflow.memory.weigh import estimated_size


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (bytes(100_000), 100_000),
        (memoryview(bytes(100_000)), 100_000),
        ("x" * 100_000, 100_000),
        (np.zeros((3, 100, 100), np.float32), 120_000),
        (Image.new("RGB", (200, 100)), 80_000),
        (Image.new("L", (200, 100)), 20_000),
        ({"__key__": "a", "jpg": bytes(60_000), "more": [bytes(40_000)]}, 100_000),
    ],
)
def test_a_value_weighs_its_content_and_little_more(value: object, size: int):
    assert size <= estimated_size(value) <= size + 1_000


def test_a_tensor_weighs_its_content():
    torch = pytest.importorskip("torch")
    assert 150_528 * 4 <= estimated_size(torch.zeros(3, 224, 224)) <= 150_528 * 4 + 1_000


def test_a_container_that_holds_itself_is_weighed_once():
    loop: list[object] = [bytes(1000)]
    loop.append(loop)
    assert estimated_size(loop) < 3_000
