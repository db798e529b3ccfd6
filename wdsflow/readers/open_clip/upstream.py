"""What differs between the training loops of OpenCLIP 3.3 and 4: what they are called with, and how they save."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Loop:
    """One call of ``train_one_epoch``, whatever its arguments are called in this version."""

    module: ModuleType  # open_clip_train.main
    arguments: dict[str, Any]  # by name

    @property
    def args(self) -> Any:
        """The parsed command line."""
        return self.arguments["args"]

    @property
    def epoch(self) -> int:
        """The epoch, counted from 0: as many are completed."""
        state = self.arguments.get("state")
        return int(self.arguments["epoch"] if state is None else state.epoch)

    def checkpoint(self) -> dict[str, Any] | None:
        """Return what OpenCLIP would save now; None on ranks that save nothing. With FSDP all ranks must call it."""
        state, args = self.arguments.get("state"), self.args
        if state is not None:
            if not (args.save_logs or getattr(args, "fsdp", False)):
                return None
            found: dict[str, Any] = self.module.save_checkpoint(
                state.task,
                state.optimizer,
                epoch=state.epoch,
                scaler=state.scaler,
                name=args.name,
                global_step=state.global_step,
                samples_seen=state.samples_seen,
            )
            return found if args.save_logs else None
        if not args.save_logs:
            return None
        model, scaler = self.arguments["model"], self.arguments["scaler"]
        found = {
            "epoch": self.epoch,
            "name": args.name,
            # The names in the state of a compiled model have a prefix; OpenCLIP saves the one inside.
            "state_dict": getattr(model, "_orig_mod", model).state_dict(),
            "optimizer": self.arguments["optimizer"].state_dict(),
        }
        return found if scaler is None else {**found, "scaler": scaler.state_dict()}


def saves_at(args: Any, completed: int) -> bool:
    """Return whether OpenCLIP itself writes a checkpoint after so many epochs."""
    regular = args.save_frequency > 0 and completed % args.save_frequency == 0
    return bool(completed == args.epochs or regular or args.save_most_recent)


def why_no_checkpoints(args: Any) -> str:
    """Return why nothing can be saved inside of epochs with these arguments, "" if it can."""
    if not args.logs or args.logs.lower() == "none":
        return "with --logs none OpenCLIP keeps no checkpoints"
    if getattr(args, "horovod", False):
        return "not with --horovod"
    if getattr(args, "fsdp", False) and getattr(args, "fsdp_checkpoint", "") == "sharded":
        return "not with --fsdp-checkpoint sharded"
    return ""
