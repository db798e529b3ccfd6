"""Lost samples of an epoch, and the error if too many are lost in a row."""

from collections.abc import Callable

from wdsflow.training.sample_tasks import StreamKey
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally

# Lost samples in a row between two calls of ``idle``.
_IDLE = 100


class StarvedError(RuntimeError):
    """No batch can be filled.

    Args:
        stream: the stream that has too few samples; None if all have.
        usable: samples of its last whole round.
        in_a_row: samples lost in a row, if that is how it was noticed.
    """

    def __init__(self, stream: StreamKey | None, usable: int, in_a_row: int | None = None) -> None:
        super().__init__(stream, usable, in_a_row)
        self.stream, self.usable, self.in_a_row = stream, usable, in_a_row


class Losses:
    """Counts lost samples of an epoch.

    Raises StarvedError if ``most`` samples are lost in a row. ``idle`` may raise, too.
    """

    def __init__(self, tally: LossTally, most: int, idle: Callable[[], None]) -> None:
        self.in_a_row = 0
        self._tally, self._most, self._idle = tally, most, idle

    def count_loss(self, loss: FeedLoss, round_: int = 0) -> None:
        """Count a lost sample: in the tally once per epoch, not in each round."""
        if not round_:
            self._tally.add_loss(loss)
            if loss.stage == "select":
                self._tally.count_fields(tuple(loss.detail.split(", ")))
        self.count_missing()

    def count_missing(self) -> None:
        """Count a sample that is not there."""
        self.in_a_row += 1
        if self.in_a_row >= self._most:
            raise StarvedError(None, 0, self.in_a_row)
        if self.in_a_row % _IDLE == 0:
            self._idle()
