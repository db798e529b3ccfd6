"""``wdsflow verify``: compare shards with their certificate."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from wdsflow.cli.shared.terminal import fail, no_shards, print_lines, progress, write_output
from wdsflow.cli.shared.typed import Typed, free
from wdsflow.text.options import argument, option, processes_option
from wdsflow.text.shell import escape, quote_path

if TYPE_CHECKING:
    from wdsflow.validate.report import Report


def write_certificate(report: "Report", path: Path, pipeline: str | None, typed: Typed) -> bool:
    """Write the certificate of a report, or print the reason why it cannot be; return whether it was written."""
    from wdsflow.shards.certificate import CertificateError, dump
    from wdsflow.validate.certify import certify

    try:
        certificate = certify(report, path, pipeline)
    except CertificateError as error:
        old = "; the file there is an older one" if path.is_file() else ""
        print(f"wdsflow: no certificate written to {path}{old}: {escape(str(error), 1_000)}", file=sys.stderr)
        if not report.ok and all(shard.identity is not None for shard in report.evidence.shards) and report.findings:
            baseline = free(path.with_name(f"{path.stem}-baseline.json"))
            again = typed.again(write_baseline=baseline, baseline=None)
            print(f"  to accept what was found, and to certify the shards with this verdict: {again}", file=sys.stderr)
        return False
    write_output(path, dump(certificate).decode())
    message = f"wrote the certificate {path}, root {certificate.root}; to compare the shards with it later:"
    print(f"{message}\n  wdsflow verify {quote_path(str(path))}", file=sys.stderr)
    return True


def write_croissant(report: "Report", path: Path) -> bool:
    """Write Croissant metadata of shards, or print the reason why it cannot be; return whether it was written."""
    from wdsflow.shards.certificate import CertificateError
    from wdsflow.validate.certify import croissant, not_tars

    try:
        text = croissant(report.evidence.shards, path)
    except CertificateError as error:
        print(f"wdsflow: no Croissant metadata written to {path}: {escape(str(error), 1_000)}", file=sys.stderr)
        return False
    write_output(path, text)
    if others := not_tars(report.evidence.shards):
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        named = f"{', '.join(escape(url, 300) for url in others[:3])}{more}"
        print(f"wdsflow: not in {path}, because no reader finds a tar there: {named}", file=sys.stderr)
    print(f"wrote {path}; add to it what shards do not say: description, license, creator, citation", file=sys.stderr)
    return True


def compare_shards(
    file: Path,
    urls: Sequence[str],
    again: str,
    *,
    full: bool,
    jobs: int | None,
    as_json: bool,
    wanted: Literal["certificate", "manifest"] = "certificate",
) -> NoReturn:
    """Compare shards with their certificate or manifest, print the differences, and exit.

    Args:
        file: the certificate or manifest.
        urls: current places of the shards; none for those in the file.
        again: the typed command, without options for depth and format.
        full: read and hash all bytes.
        jobs: processes that hash.
        as_json: print JSON.
        wanted: the kind of file: a certificate for ``wdsflow verify``, a manifest for ``wdsflow validate``.
    """
    from wdsflow.indexing.compare import compare, comparison_lines
    from wdsflow.shards.certificate import CertificateError, load
    from wdsflow.shards.urls import NoShards

    try:
        with progress() as begin:
            found = compare(load(file, wanted, urls), file, urls, full=full, jobs=jobs, begin=begin)
    except CertificateError as error:
        fail(str(error))
    except NoShards as error:
        no_shards(error)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}")
    if as_json:
        sys.stdout.write(json.dumps(found.to_dict(), indent=2) + "\n")
    else:
        options = ("--full", "--json") if wanted == "certificate" else ("--level full", "--format json")
        print_lines(*comparison_lines(found, str(file), again, *options))
    sys.exit(0 if found.ok else 1)


@dataclass(frozen=True)
class VerifyOptions:
    """A certificate, and the places of its shards."""

    file: Path = argument("FILE", "Certificate that validate --certify wrote, or checksums.json of index --checksums.")
    urls: list[str] | None = argument(
        "[URL...]", "Where the shards are now: their folder, or all of them. By default where the certificate says."
    )
    full: bool = option(False, "Read and hash all bytes, instead of comparing sizes and ETags or times of change.")
    jobs: int | None = processes_option()
    as_json: bool = option(False, "Print JSON, with all shards that differ.", "--json")


def verify(typed: Typed, options: VerifyOptions) -> None:
    """Compare shards with their certificate.

    validate --certify wrote it. Reports shards that changed, are missing or were added:

    wdsflow verify certificate.json

    Exit status: 0 if all shards were compared and are the same; 1 if not; 2 if the command is wrong, or the certificate
    cannot be read or was changed.
    """
    again, urls = typed.again(full=None), options.urls or ()
    compare_shards(options.file, urls, again, full=options.full, jobs=options.jobs, as_json=options.as_json)
