"""Take the picture of the report page that the README shows, from a run, with headless Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from krisis import Benchmark, SuiteConfig
from krisis.backends.catalogue import backend_from_name
from krisis.data.ckd.suite import CKDSuite
from krisis.execution.options import Execution
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
MOST_BYTES = 200_000
MODEL = ROOT / "examples" / "ward_model.py"
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-sync", "--window-size=1100,860"),
)


def main() -> int:
    """Run, write the page and take its picture."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed; install it, or keep the picture as it is")
        return 2
    suite = CKDSuite(SuiteConfig(task="detection"))
    backend = backend_from_name(f"{MODEL}:WardModel")
    result = Benchmark(suite, backend, batch_size=1, execution=Execution(baselines=True)).run()
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(page_of(run_document(result)), encoding="utf-8", newline="\n")
        places = (f"--user-data-dir={folder}/profile", f"--screenshot={PICTURE}")
        command = [browser, *OPTIONS, *places, page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
    n_bytes = PICTURE.stat().st_size
    print(f"wrote {PICTURE.relative_to(ROOT)} ({n_bytes:,} bytes)")
    return int(n_bytes > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
