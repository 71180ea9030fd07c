"""`python -m penumbra.cli`: the same as the command."""

from penumbra.cli import main

if __name__ == "__main__":
    main()
