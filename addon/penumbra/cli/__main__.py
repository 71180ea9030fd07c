"""`python -m penumbra.cli` runs the command `penumbra`."""

from penumbra.cli import main

if __name__ == "__main__":
    main()
