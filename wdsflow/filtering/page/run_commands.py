"""The commands on the page of a run.

One filters the same shards by another predicate, the other computes missing scores.
"""

import shlex
from pathlib import Path

from wdsflow.joining.recorded_join import join_flags, join_of
from wdsflow.records.run_folder import Layout
from wdsflow.shards.shard import Shard
from wdsflow.shards.written_names import compact_patterns
from wdsflow.text.shell import quote_path

from .run_facts import RunFacts


def run_commands(facts: RunFacts) -> dict[str, str]:
    """Return the commands to filter by another predicate, and to compute missing scores.

    The first one filters the same shards.

    The page appends the predicate to the first one.
    """
    shards = [Shard.from_text(record.url) for record in facts.records]
    urls = " ".join(quote_path(url) for url in compact_patterns(shards))
    if any(shard.is_pipe for shard in shards):
        urls += " --allow-pipe"
    kept, scores = _new_folder(facts, "kept"), _new_folder(facts, "scores")
    join = join_flags(join_of(facts.run))
    options = f"--ledger {quote_path(str(facts.folder))}{join}"
    unknown = str(facts.recipe.get("unknown", "quarantine"))
    if unknown != "quarantine":
        options += f" --unknown {shlex.quote(unknown)}"
    recipe = quote_path(str(Layout(facts.folder).run_file))
    return {
        "filter": f"wdsflow filter {urls} -o {kept} {options} --where ",
        "measure": f"wdsflow measure {urls} -o {scores} --recipe {recipe}{join}",
    }


def _new_folder(facts: RunFacts, suffix: str) -> str:
    """Return the name of a folder that does not exist yet, for a shell."""
    folder = Path(f"{facts.folder}-{suffix}")
    number = 1
    while folder.exists():
        number += 1
        folder = Path(f"{facts.folder}-{suffix}{number}")
    return quote_path(str(folder))
