"""What shapes tell must not depend on the order in which sets are walked."""

from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.shape_facts import note_shapes
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import OK
from wdsflow.shards.source.base import single_shard


def test_the_first_dotted_name_of_a_shard_is_the_one_that_is_shown():
    collector = RunCollector()
    fields = [f"{number} (x).{extension}" for number in range(40) for extension in ("jpg", "txt")]
    for offset, suffix in enumerate(fields):
        collector.add("photo 2", Part(suffix, OK), offset)
    shard = ShardEvidence(single_shard("0.tar"), samples=1, runs=collector.runs())
    tallies: dict[str, Tally] = {}

    note_shapes(shard, lambda name: tallies.setdefault(name, Tally()))

    assert tallies["name.dotted"].detail == fields[0]
    assert tallies["name.dotted"].count == len(fields)
    assert shard.samples == 40
