"""``python -m wdsflow``: for launchers that start Python modules, such as ``torchrun -m``."""

from wdsflow.cli.main import main

if __name__ == "__main__":
    main()
