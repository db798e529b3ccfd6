"""``python -m wdsflow``: for launchers that start Python modules, such as ``torchrun -m``."""

from wdsflow.cli.entry_point import run

if __name__ == "__main__":
    run()
