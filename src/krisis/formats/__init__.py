"""Files of other programs: predictions that become runs, and runs that become tables and logs."""

from krisis.lazy_names import lazily

_HOMES = {
    "ImportOptions": "krisis.formats.base",
    "Reading": "krisis.formats.base",
    "SourceRow": "krisis.formats.base",
    "TidyTable": "krisis.formats.tidy_table",
}
__all__ = ["ImportOptions", "Reading", "SourceRow", "TidyTable"]
__getattr__ = lazily(__name__, _HOMES)
