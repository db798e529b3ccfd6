"""Which epoch the next iteration over a loader begins."""

import logging

from wdsflow.training.stalls.loss_tally import log_or_print

# Iterations in a row that ended after one batch.
_MOST_LOOKS = 2
# Batches from which on an iteration is not a look.
_COUNTS = 2


class EpochCounter:
    """Counts the epochs of one loader.

    Without ``advances``, as for evaluation, the epoch changes only on request.

    An iteration counts as an epoch once it yields its second or last batch. Before that it is a
    look, as by ``next(iter(loader))``, and the next iteration begins the same epoch: not all ranks
    may have looked.
    """

    def __init__(self, epoch: int, *, advances: bool) -> None:
        self.next = epoch
        # Since an iteration began.
        self.requested = False
        self._advances = advances
        # Of the current iteration.
        self._epoch = epoch
        # Its batches.
        self._given = 0
        # As an epoch.
        self._counted = False
        self._read: set[int] = set()
        self._looks = 0

    def request(self, epoch: int) -> None:
        """Let the next iteration begin this epoch."""
        self.next, self.requested = epoch, True

    def resume(self, epoch: int, *, done: bool) -> None:
        """Continue in an epoch of another process, or after it."""
        self.next, self.requested, self._looks = epoch + done, False, 0
        self._read = {epoch} if done else set()

    def begin(self) -> int:
        """Begin an iteration and return its epoch.

        Logs a warning if the caller reads the same data again.
        """
        requested, self.requested = self.requested, False
        self._looks = 0 if self._counted or requested else self._looks + bool(self._given)
        self._epoch, self._given, self._counted = self.next, 0, False
        if self._advances and requested and self._epoch in self._read:
            log_or_print(
                logging.WARNING,
                f"epoch {self._epoch} begins again, with the same batches: set_epoch({self._epoch}) was called after "
                "this epoch had been read. Without set_epoch, each iteration begins the next epoch",
            )
        elif self._advances and self._looks == _MOST_LOOKS:
            log_or_print(
                logging.WARNING,
                f"the last {_MOST_LOOKS} iterations ended after one batch; this one begins epoch {self._epoch} again, "
                "with the same batch. Iterate over the loader once per epoch, or call set_epoch before each iteration",
            )
        return self._epoch

    def count_batch(self, *, last: bool) -> bool:
        """Count a batch; return whether this batch makes the iteration count as an epoch."""
        self._given += 1
        if self._counted or not (last or self._given == _COUNTS):
            return False
        self._counted = True
        self._read.add(self._epoch)
        if self._advances and not self.requested:
            self.next = self._epoch + 1
        return True
