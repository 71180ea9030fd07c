"""`python -m penumbra` and the installed script run the command `penumbra`."""

import signal


def main() -> None:
    """Run the command. SIGINT ends the process without a traceback while the modules are imported."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from penumbra import cli

    signal.signal(signal.SIGINT, interrupted)
    cli.main()


if __name__ == "__main__":
    main()
