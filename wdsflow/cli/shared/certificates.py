"""What ``wdsflow validate`` writes about the bytes of shards: a certificate, and Croissant metadata."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.text.escape import escape
from wdsflow.text.shell import quote_path

from .terminal import write_output
from .typed_command import Typed, free

if TYPE_CHECKING:
    from wdsflow.validate.report import Report


def write_certificate(report: "Report", path: Path, pipeline: str | None, typed: Typed) -> bool:
    """Write the certificate of a report, or say on standard error why there is none; return whether there is one."""
    from wdsflow.validate.certificate.certificate import CertificateError, dump
    from wdsflow.validate.certificate.certify import certify

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
    told = f"wrote the certificate {path}, root {certificate.root}; to compare the shards with it later:"
    print(f"{told}\n  wdsflow verify {quote_path(str(path))}", file=sys.stderr)
    return True


def write_croissant(report: "Report", path: Path) -> bool:
    """Write Croissant metadata of shards, or say on standard error why there is none; return whether there is."""
    from wdsflow.validate.certificate.certificate import CertificateError
    from wdsflow.validate.certificate.croissant import croissant

    try:
        text = croissant(report.evidence.shards, path)
    except CertificateError as error:
        print(f"wdsflow: no Croissant metadata written to {path}: {escape(str(error), 1_000)}", file=sys.stderr)
        return False
    write_output(path, text)
    print(f"wrote {path}; add to it what shards do not say: description, license, creator, citation", file=sys.stderr)
    return True
