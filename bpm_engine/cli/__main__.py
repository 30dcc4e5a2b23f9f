"""`python -m bpm_engine.cli` is `bpm`, also where no console script is installed."""

from bpm_engine.cli import main

if __name__ == "__main__":
    main()
