"""What an audit hands on: its groups, its labels, and how stable the answers are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from krisis.decisions.audit_labels import DisputedLabels, LabelAgreement
from krisis.decisions.group_findings import GroupAudit
from krisis.decisions.reviewed import ReviewedLabels
from krisis.decisions.stability import Stability
from krisis.display import Documented
from krisis.json_values import JsonObject


@dataclass(frozen=True)
class Audit(Documented):
    """What an audit found: by group, between labels, and between askings of one case."""

    groups: GroupAudit
    agreement: LabelAgreement | None = None
    disputed: DisputedLabels | None = None
    stability: Stability | None = None
    reviewed: ReviewedLabels | None = None
    builder: ClassVar[str] = "krisis.pages.audit:audit_document"

    def to_json(self) -> JsonObject:
        """Return the findings under groups, agreement, disputed, stability and reviewed."""
        parts = {
            "groups": self.groups,
            "agreement": self.agreement,
            "disputed": self.disputed,
            "stability": self.stability,
            "reviewed": self.reviewed,
        }
        found = {name: part.to_json() for name, part in parts.items() if part is not None}
        return {"kind": "krisis.audit", "schema_version": 1, **found}
