"""Rows of tokens are the same if their tokens and their types are."""

import numpy as np
import pytest
import torch

from wdsflow.stages.tokenizer_rows import same_row


class Unequal:
    def __eq__(self, other: object) -> bool:
        raise ValueError("nothing can be compared with this")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("row", [list, tuple, np.array, torch.tensor])
def test_rows_of_each_kind_are_compared_by_their_tokens(row) -> None:
    assert same_row(row([1, 2]), row([1, 2])) is True
    assert same_row(row([1, 2]), row([1, 3])) is False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32)),
        (np.array([1, 2]), np.array([1, 2], dtype=np.int32)),
        (np.array([1, 2]), [1, 2]),
        (Unequal(), Unequal()),
    ],
)
def test_rows_of_other_types_are_not_the_same(one: object, other: object) -> None:
    assert same_row(one, other) is False
