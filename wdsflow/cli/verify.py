"""``wdsflow verify``: are these the shards that were certified?"""

from dataclasses import dataclass
from pathlib import Path

from wdsflow.cli.shared.certificates import compare_shards
from wdsflow.cli.shared.typed import Typed
from wdsflow.text.options import argument, option


@dataclass(frozen=True)
class VerifyOptions:
    """A certificate, and where its shards are."""

    file: Path = argument("FILE", "Certificate that validate --certify wrote, or checksums.json of index --checksums.")
    urls: list[str] | None = argument(
        "[URL...]",
        "Where the shards are now: their folder, or all of them. By default where the certificate says.",
    )
    full: bool = option(False, "Read and hash all bytes, instead of comparing sizes and ETags or times of change.")
    jobs: int | None = option(None, "Number of processes; by default one per core.", metavar="N", least=1)
    as_json: bool = option(False, "Print JSON, with all shards that differ.", "--json")


def verify(typed: Typed, asked: VerifyOptions) -> None:
    """Compare shards with their certificate.

    validate --certify wrote it. Reports shards that changed, are missing or were added:

    wdsflow verify certificate.json

    Exit status: 0 if all shards were compared and are the same; 1 if not; 2 if the command is wrong, or the certificate
    cannot be read or was changed.
    """
    again = typed.again(full=None)
    urls, jobs = asked.urls or (), asked.jobs
    compare_shards(asked.file, urls, again, "--full", "--json", full=asked.full, jobs=jobs, as_json=asked.as_json)
