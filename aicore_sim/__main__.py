"""`python -m aicore_sim` is `aicore-sim`."""

from aicore_sim.cli.main import run

if __name__ == "__main__":
    run()
