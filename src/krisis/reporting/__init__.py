"""Charts and the self-contained HTML report, drawn from saved results without a network."""

from krisis.lazy_names import lazily

_HOMES = {
    "build_sheet": "krisis.reporting.sheet",
    "flow_text": "krisis.reporting.sheet_flow",
    "read_run_for_sheet": "krisis.reporting.sheet_run",
}
__all__ = [
    "build_sheet",
    "flow_text",
    "read_run_for_sheet",
]
__getattr__ = lazily(__name__, _HOMES)
