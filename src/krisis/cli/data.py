"""`krisis data`: what the suites offer to write their data and to check files of one's own."""

from __future__ import annotations

import typer

from krisis import registry

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Write and check data files of the suites."
)

for _name in registry.names("commands"):
    app.command(_name)(registry.find("commands", _name))
