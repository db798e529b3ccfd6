from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import BAD, ShardEvidence, Tally
from wdsflow.text.install import install_packages
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import first_seen
from ..kit.rule_loss import LossRule

_PACKAGES = {"msgpack": "msgpack", "cbor": "cbor"}


class NeedsLibrary(LossRule):
    """A field needs a library that is not installed here.

    What: members such as ``.mp`` (msgpack) or ``.cbor`` whose decoder is a separate package. It is missing in this
    environment; check the environment in which you train.

    Why it matters: OpenCLIP 3.3 decodes every field. Without the package, each such sample is dropped with a warning
    that names neither key nor cause. If all samples have the field, none is left and training hangs.

    In practice: shards made with one environment and read with another.

    Fix: ``pip install msgpack`` for .mp and .msg, ``pip install cbor`` for .cbor, or leave the field out when packing.
    """

    code = "F122"
    tallies = ("field.needs-library",)
    statuses = (BAD,)
    kinds = ("msgpack", "cbor", "tenbin", "torch", "npy", "npz")

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        package = _PACKAGES.get(kind_of(tally.detail))
        return Repair(install_packages(package), note="where you train, too") if package else None

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return (
            f"{how_many(count, 'field needs', 'fields need')} a library that is not installed here{first_seen(detail)}"
        )
