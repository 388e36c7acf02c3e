"""The pictures of the gallery: what its own commands write when the site is built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = "how-to/gallery.md"
FOLDER = "how-to/gallery"
COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


def artefacts(page: Path) -> dict[str, bytes]:
    """Run the commands of the page in an empty folder; return its charts and HTML pages."""
    (commands,) = COMMANDS.findall(page.read_text(encoding="utf-8"))
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603
            ["bash", "-euo", "pipefail", "-c", commands],  # noqa: S607
            cwd=folder,
            env={**os.environ, "PATH": programs, "XDG_CACHE_HOME": f"{folder}/cache"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the commands of {PAGE} fail: {done.stderr}")
        written = [*Path(folder).glob("*.html"), *Path(folder, "figures").glob("*.svg")]
        return {path.name: path.read_bytes() for path in written}
