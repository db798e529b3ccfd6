from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments

from ...finding import Finding
from ...forecast.forecast import Forecast
from ..kit.base import Context
from ..kit.training_rule import TrainingRule, flag


class UnknownDatasetType(TrainingRule):
    """OpenCLIP cannot determine the type of the data.

    What: ``--dataset-type`` is "auto", which looks at the extension of ``--train-data`` or ``--val-data`` and knows
    csv, tsv and tar. Here it is something else: ``x.tar.gz``, a folder, ``pipe:... -``, ``x.tar?download=true``.

    Why it matters: it ends at once with "ValueError: Tried to figure out dataset type, but failed for extension".

    In practice: bioclip#30 and others who read compressed shards or signed urls.

    Fix: ``--dataset-type webdataset``. Compressed shards are then read like others, only slower.
    """

    code = "P318"
    severity = "error"

    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Finding]:
        if forecast.crash and forecast.crash_kind == "dataset-type":
            yield self.finding(forecast.crash, fix=flag("--dataset-type", "webdataset"))
