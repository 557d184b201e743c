# SPDX-License-Identifier: Apache-2.0
"""What the parsers of all commands have in common."""

import argparse


def add_command(commands, name, summary, description, epilog, **options):
    """The parser of a new command; `summary` is its line in the list of all,
    examples and exit codes are in the epilog; `options` are the parser's."""
    return commands.add_parser(
        name, help=summary, description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def add_json(command, what="print one JSON object"):
    command.add_argument("--json", action="store_true", help=what)
