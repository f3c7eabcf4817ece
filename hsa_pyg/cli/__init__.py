"""The command ``hsa-pyg``."""

import io
import sys


def main() -> None:
    """Run the command line; an absent extra or file ends it with one sentence."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        raise SystemExit(
            f"The command hsa-pyg needs typer and rich ({error}): "
            'pip install "hsa-pyg[cli]".'
        ) from error
    from hsa_pyg.cli.app import app

    # A console of few characters shows escapes instead of ending the command.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (ImportError, OSError, FloatingPointError, SettingsError) as error:
        print(f"hsa-pyg: {error}", file=sys.stderr)
        raise SystemExit(1) from error


class SettingsError(ValueError):
    """What was asked for on the command line does not fit together."""
