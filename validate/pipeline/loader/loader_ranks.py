"""Makes the process of a loader's run one rank of a group, as torchrun and a training script do."""

import os
import sys
from collections.abc import Callable
from datetime import timedelta

from ...tracing.errors import error_text
from ..user_code.user_process import forget_ranks
from .loader_messages import LoaderRequest

# For the ranks to meet.
_SECONDS = 60
# What joins a group, in torch.distributed.
_INIT = "init_process_group"
# Packages that import it by this name, if at all. Their modules hold half of all names, and in a
# forked process, to look at all of those takes 0.2 s: the memory that they are in is copied.
_LARGE_PACKAGES = frozenset(
    (
        "numpy",
        "pandas",
        "pyarrow",
        "scipy",
        "sklearn",
        "sympy",
        "torch",
        "torchvision",
        "transformers",
    )
)


def set_rank(request: LoaderRequest) -> None:
    """Set the variables that torchrun sets, and none of other launchers."""
    forget_ranks()
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(request.rank)
    os.environ["WORLD_SIZE"] = os.environ["LOCAL_WORLD_SIZE"] = str(request.ranks)
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(request.port)


def join_group(request: LoaderRequest) -> str:
    """Take part in the group of ranks, as a training script does before it makes a loader.

    A script that makes its group together with the loader then gets this one.

    Returns:
        Why the group could not be joined; "" if it was, or if torch is not imported.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return ""
    if request.rendezvous:
        rendezvous = {"init_method": f"file://{request.rendezvous}"}
    else:
        # A group of one rank.
        rendezvous = {"store": distributed.HashStore()}
    init: Callable[..., object] = distributed.init_process_group
    try:
        # The script may have done it when it was imported.
        if not distributed.is_initialized():
            timeout = timedelta(seconds=_SECONDS)
            init("gloo", timeout=timeout, rank=request.rank, world_size=request.ranks, **rendezvous)
    except Exception as error:  # noqa: BLE001 - of this machine's network
        return error_text(error)

    def init_once(*arguments: object, **options: object) -> None:
        if not distributed.is_initialized():
            init(*arguments, **options)

    # Also where modules have imported it, under whatever name.
    for full_name, module in list(sys.modules.items()):
        attributes = vars(module)
        package = full_name.partition(".")[0]
        names = [_INIT] if package in _LARGE_PACKAGES else list(attributes)
        for name in names:
            if attributes.get(name) is init:
                attributes[name] = init_once
    return ""
