"""Write docs/command_line.md, the reference of ``hsa-pyg``, from its help texts.

Run from anywhere, with the extra ``cli``: ``python docs/command_page.py``.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import typer
from typer.cli import get_docs_for_click

from hsa_pyg.cli.app import app

#: The page.
PAGE = Path(__file__).parent / "command_line.md"
INTRODUCTION = """\
# The command `hsa-pyg`

What each of its commands does and takes, as `hsa-pyg COMMAND --help` says it, too. How
to use them: [the demo](demo.md), [converters](converters.md),
[experiments](experiments.md), [pretrained transformers](transformers.md).
"""


def command_page() -> str:
    """The page as Markdown."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="hsa-pyg")
    told = get_docs_for_click(obj=command, ctx=context, name="hsa-pyg")
    # The first heading is the introduction's; the list of commands cuts its texts.
    _, _, told = told.partition("\n")
    told = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n", "", told)
    lines = (line.rstrip() for line in html.unescape(told).strip().splitlines())
    return INTRODUCTION + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(command_page(), encoding="utf-8")
