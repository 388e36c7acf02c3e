"""`krisis verify`: did a certified risk hold on new patients?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.api import deciding as verbs
from krisis.cli.certify import Calibration, Confidence, Mode
from krisis.cli.formats import Format, chosen_format, give
from krisis.cli.help import command, new_app

app = new_app()

CertificateFile = Annotated[Path, typer.Argument(help="A certificate of `krisis certify -o`.")]
Time = Annotated[str, typer.Option("--time")]


@command(
    app,
    "krisis verify certificate.json runs/NEW",
    "krisis verify certificate.json runs/NEW --time admitted",
)
def verify(
    certificate: CertificateFile,
    run: Annotated[Path, typer.Argument(help="A run of the same model on other patients.")],
    confidence: Confidence = "",
    calibration: Calibration = None,
    time: Time = "",
    mode: Mode = None,
    output_format: Format = "",
) -> None:
    """Check a certificate on new patients, once; exit 1 if it is broken.

    To look again as patients arrive, use `krisis monitor`.
    """
    chosen = chosen_format(output_format)
    found = verbs.verify(
        certificate, run, confidence=confidence, calibration=calibration, time=time, mode=mode
    )
    give(found, found.to_json, chosen)
    if found.verdict == "broken":
        raise typer.Exit(1)
