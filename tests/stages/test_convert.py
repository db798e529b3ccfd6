"""Pictures of more than 8 bits as levels from 0 to 255."""

import numpy as np
import pytest
from PIL import Image

from wdsflow.stages.imaging.rgb import scaled


@pytest.mark.parametrize(
    ("values", "mode", "levels"),
    [
        ([0.0, 0.5, 1.0], "F", [0, 128, 255]),
        ([0.0, 1.5, 255.0], "F", [0, 2, 255]),
        ([0.0, 128.0, 256.0], "F", [0, 128, 255]),
        ([-1.0, 0.0, 1.0], "F", [0, 128, 255]),
        ([float("nan"), 0.0, 1.0], "F", [0, 0, 255]),
        ([7.0, 7.0, 7.0], "F", [7, 7, 7]),
        ([0, 257, 65535], "I", [0, 1, 255]),
        ([0, 32768, 65536], "I", [0, 128, 255]),
        ([-2, 0, 2], "I", [0, 128, 255]),
        ([-5, -5, -5], "I", [0, 0, 0]),
    ],
)
def test_high_depth_is_scaled_by_its_range(values, mode, levels):
    image = Image.fromarray(np.array([values], np.float32 if mode == "F" else np.int32))
    assert image.mode == mode
    assert scaled(image).tolist() == [levels]
