"""The epoch that is read next."""


class SharedEpoch:
    """The epoch, for ``DataInfo.set_epoch``. OpenCLIP's is in shared memory, for workers that read it themselves."""

    def __init__(self, epoch: int = 0) -> None:
        self._epoch = epoch

    def set_value(self, epoch: int) -> None:
        """Begin another epoch with the next iteration."""
        self._epoch = epoch

    def get_value(self) -> int:
        """Return the epoch."""
        return self._epoch
