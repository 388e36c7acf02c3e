"""`krisis monitor`: does a certified threshold still hold, looked at as often as one likes?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import Calibration, Mode
from krisis.cli.formats import Format, Output, Verbose, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.cli.verify import CertificateFile, Time
from krisis.json_values import write_text
from krisis.pages.shell import page
from krisis.verbs import monitor as verbs

app = new_app()

New = Annotated[list[Path], typer.Option("--new")]


@command(
    app,
    "krisis monitor certificate.json --new runs/JANUARY --new runs/FEBRUARY",
    "krisis monitor certificate.json --new runs/ALL --time admitted --html new.html",
)
def monitor(
    certificate: CertificateFile,
    new: New = [],  # noqa: B006 - never changed
    time: Time = "",
    calibration: Calibration = None,
    mode: Mode = None,
    output_format: Format = "",
    output: Output = None,
    verbose: Verbose = False,
    html: Path | None = typer.Option(None, "--html"),
) -> None:
    """Check that a certified risk still holds; exit 1 if it is broken.

    Name all runs since the certificate, in order of arrival: the evidence of earlier patients
    counts. Unlike `krisis verify`, this may be looked at after every patient.
    """
    chosen = chosen_format(output_format, output)
    found = verbs.monitor(certificate, new, calibration=calibration, time=time, mode=mode)
    give(found, found.to_json, chosen, output=output, verbose=verbose)
    if html is not None:
        write_text(html, page(found.document()))
        typer.echo(f"wrote {html}", err=True)
    if found.state == "broken":
        raise typer.Exit(1)
