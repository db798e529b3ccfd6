"""The end of a run: the counts for trainers, one manifest in order, and no temporary files."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress

from wdsflow.shards.folder_lock import Busy, Lock
from wdsflow.shards.unfinished import end_shards

from .layout import Layout
from .manifest import read_manifests, write_manifest
from .output_numbers import give_numbers


def finish(layout: Layout, names: Sequence[str], identity: str, *, tars: bool, alone: bool) -> bool:
    """End a run that came to its end, and return whether all shards are done.

    ``identity``: that of the run. Shards whose ledgers have fewer scores are not done. Only then densely numbered outputs
    get their numbers, and the manifests of all slices become one, in the order of the shards: an interrupted run leaves
    the same bytes as any other. ``alone``: no other slice is to follow, so that shards that could not be read are not
    waited for. Otherwise the folder stays marked as unfinished, without counts.
    """
    with Lock(layout.inside / "lock-finish", patience=600):
        paths = layout.manifests()
        known = read_manifests(paths, identity)
        records = [known[name] for name in names if name in known and known[name].recipe == identity]
        whole = len(records) == len(names)
        sizes = None
        if tars and (whole or (alone and not layout.dense)):
            if layout.dense:
                sizes = give_numbers(layout, records)
            else:
                sizes = dict[str, int]()
                for record in records:
                    if record.output is not None:
                        sizes[record.name] = record.counted
                    sizes |= {name: part["samples"] for name, part in record.parts.items()}
        if whole:
            write_manifest(layout.manifest(), records)
            for path in paths:
                if path != layout.manifest():
                    path.unlink(missing_ok=True)
        if sizes is not None:
            end_shards(layout.folder, sizes)
    return whole


def tidy(layout: Layout) -> None:
    """Remove locks, files between two passes and empty folders, unless another run or slice still works there."""
    inside = layout.inside
    with ExitStack() as stack:
        try:
            held = stack.enter_context(Lock(layout.lock(), patience=0))
        except (Busy, OSError):
            return
        remove_between(layout)
        for path in sorted(inside.glob("lock*")):
            if path != layout.lock():
                with suppress(Busy, OSError), Lock(path, patience=0) as lock:
                    lock.remove()
        held.remove()


def remove_between(layout: Layout) -> None:
    """Remove files between two passes, and empty folders."""
    resolved = layout.inside / "resolved"
    for path in resolved.glob("*.json"):
        path.unlink()
    for folder in (layout.spool, resolved, layout.waiting, layout.inside / "quarantine"):
        with suppress(OSError):  # missing, or not empty
            folder.rmdir()
