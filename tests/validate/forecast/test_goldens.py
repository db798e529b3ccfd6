"""The forecasts of the training commands that have a rule, number by number.

``WDSFLOW_UPDATE_GOLDENS=1`` rewrites the golden files.
"""

import json
from pathlib import Path

import pytest

from tests.golden_file import check_file
from tests.validate.rules.test_training_goldens import CASES, Command
from wdsflow.validate.forecast.forecast_text import as_dict

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = {
    **{code: case for code, case in CASES.items() if case.given},
    "ranks": Command(
        (90, 10, 120, 61, 77, 40, 33, 64),
        others=3,
        arguments={
            "world_size": 2,
            "workers": 2,
            "batch_size": 8,
            "accum_freq": 2,
            "train_num_samples": 480,
        },
        readers=("open-clip-3.3", "open-clip-4"),
    ),
    "resampled": Command(
        (90, 10, 120),
        others=1,
        arguments={
            "world_size": 3,
            "workers": 0,
            "batch_size": 7,
            "dataset_resampled": True,
            "warmup": 7,
        },
        readers=("open-clip-3.3", "open-clip-4"),
    ),
    "one": Command((9,), arguments={"workers": 1, "batch_size": 8, "epochs": 1}),
}


def rounded(value: object) -> object:
    """Return plain values with floats of five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {str(name): rounded(item) for name, item in value.items()}
    return [*map(rounded, value)] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", COMMANDS)
def test_a_forecast_is_what_the_golden_file_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    lines = []
    for each in COMMANDS[name].context().forecasts:
        for fact, value in as_dict(each).items():
            shown = value if fact == "lines" else [value]
            lines += [f"{fact}: {json.dumps(rounded(item), ensure_ascii=False)}" for item in shown]
    text = "\n".join([*lines, ""])
    check_file(GOLDEN / f"{name}.txt", text)
