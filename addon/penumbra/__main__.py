"""`python -m penumbra` runs the command `penumbra`."""

from penumbra.cli import main

if __name__ == "__main__":
    main()
