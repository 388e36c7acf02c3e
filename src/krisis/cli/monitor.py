"""`krisis monitor`: does a certified threshold still hold, looked at as often as one likes?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import Calibration, Mode, Time
from krisis.cli.console import print_document
from krisis.cli.formats import AsJson
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.json_values import dumps
from krisis.verbs import deciding as verbs

app = new_app()

New = Annotated[list[Path], typer.Option("--new")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v")]


@command(
    app,
    "krisis monitor certificate.json --new runs/JANUARY --new runs/FEBRUARY",
    "krisis monitor certificate.json --new runs/ALL --time admitted",
)
def monitor(
    certificate: Annotated[Path, typer.Argument(help="A certificate of `krisis certify -o`.")],
    new: New = [],  # noqa: B006 - never changed
    time: Time = "",
    calibration: Calibration = None,
    mode: Mode = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check that a certified risk still holds; exit 1 if it is broken.

    Name all runs since the certificate, in order of arrival: the evidence of earlier patients
    counts. Unlike --verify of certify, this may be looked at after every patient.
    """
    found = verbs.monitor(certificate, new, calibration=calibration, time=time, mode=mode)
    if as_json:
        echo_json(dumps(found.to_json()))
    else:
        print_document(found.document(), verbose=verbose)
    if found.state == "broken":
        raise typer.Exit(1)
