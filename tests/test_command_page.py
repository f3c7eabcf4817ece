"""The reference of the command, which its help texts are written to."""

import re

from typer.main import get_command

from docs.command_page import PAGE, command_page
from hsa_pyg.cli.app import app


def test_the_page_is_what_the_help_says():
    assert PAGE.read_text() == command_page(), "run: python docs/command_page.py"


def test_the_page_has_every_command_and_option():
    sections = re.split(r"^## `hsa-pyg (\S+)`$", PAGE.read_text(), flags=re.MULTILINE)
    told = dict(zip(sections[1::2], sections[2::2], strict=True))
    commands = get_command(app).commands
    assert set(told) == set(commands)
    for name, command in commands.items():
        for parameter in command.params:
            names = parameter.opts
            if parameter.param_type_name == "argument":
                names = [parameter.metavar or parameter.name]
            for option in names:
                assert f"`{option}" in told[name], (name, option)
