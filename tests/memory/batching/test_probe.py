"""The largest item is tried before the first shard."""

import pytest

from wdsflow.memory.batching.probe import probe

torch = pytest.importorskip("torch")


class Gpu:
    """A fake device with some free bytes; an item takes 1,000 bytes per unit of its cost."""

    def __init__(self, free: int, **memory: int) -> None:
        self.numbers = {"free": free, "total": 10 * free, **memory}
        self.peak = 0
        self.flakes = 0

    def run(self, batch: list[int]) -> list[int]:
        need = 1000 * batch[0]
        self.peak = max(self.peak, min(need // 2, self.numbers["free"]))
        if need > self.numbers["free"] or self.flakes:
            self.flakes = max(0, self.flakes - 1)
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {need - need // 2} bytes."
            )
        self.peak = max(self.peak, need)
        return batch

    def release(self) -> None: ...
    def check(self) -> None: ...

    def start_measuring(self) -> None:
        self.peak = 0

    def peak_growth(self) -> int:
        return self.peak

    def memory(self) -> dict[str, int]:
        return self.numbers


def test_an_item_that_fits_says_what_it_takes_and_how_much_would_fill_the_device():
    device = Gpu(10_000_000)
    device.peak = 9_000_000  # of what ran before
    found = probe(device.run, 512, 512, device)

    assert found.fits
    assert found.peak_growth == 512_000
    assert found.cost_within(5_120_000) == 5120
    assert found.cost_within(1) == 512
    assert (
        found.message("CLIP")
        == "CLIP: one item of the largest size, 512 pixels or tokens, takes 500 KiB; 9.5 MiB are free"
    )


def test_an_item_that_cannot_fit_says_what_it_needs_and_what_there_is():
    device = Gpu(1 << 20, available=1 << 19, cap=1 << 21)
    found = probe(device.run, 4096, 4096, device)

    assert not found.fits
    assert found.peak_growth == (1 << 20) + 2_048_000
    text = found.message("CLIP")
    assert "does not fit: it needs at least 3 MiB, 512 KiB are free under the cap of 2 MiB" in text
    assert "Tried to allocate 2048000 bytes" in text


def test_a_second_try_on_an_emptied_cache_counts():
    device = Gpu(10_000_000)
    device.flakes = 1

    assert probe(device.run, 5, 5, device).fits


def test_a_model_that_cannot_run_its_own_largest_item_is_an_error():
    def run(batch: list[int]) -> list[int]:
        raise ValueError("wrong shape")

    with pytest.raises(ValueError, match="wrong shape"):
        probe(run, 5, 5, Gpu(1000))


def test_too_little_to_measure_bounds_nothing():
    device = Gpu(1000)

    assert probe(lambda batch: batch, 5, 5, device).cost_within(1000) is None
