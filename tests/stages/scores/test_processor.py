"""Processors of transformers whose resizing is known, so that pictures may be decoded smaller."""

from typing import Any

import pytest

from wdsflow.stages.scores.model.transformer.processor import _is_plain

transformers = pytest.importorskip("transformers", minversion="5")


def test_a_processor_with_its_own_resizing_is_not_a_plain_one() -> None:
    class Crops(transformers.ViTImageProcessor):  # type: ignore[name-defined, misc]
        def resize(self, *arguments: Any, **options: Any) -> Any:
            return super().resize(*arguments, **options)

    assert _is_plain(transformers.ViTImageProcessor())
    assert not _is_plain(Crops())
