"""`PatientRecord`, the object that stage 1 hands on, and the hashes by which records are known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from krisis.answers import Label
from krisis.data.task import Features
from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping

# What costs decide of a case whose probabilities are known.
_OF_COSTS = ("should_abstain", "abstain_reasons", "deferral_kind")


@dataclass(slots=True)
class PatientRecord:
    """One case to be judged: only ``features`` and ``context`` are ever shown to a model.

    ``label`` and ``metadata`` are for scoring. ``record_id`` names the case in every file and is
    derived from the content when not given; ``cluster_id`` names the patient, who may contribute
    several records. Records of the same non-empty ``group`` are put to a model together, whole
    groups only; ``context`` is text for the model that is shown once before such records.

    >>> PatientRecord({"sc": 2.4, "htn": 1}, 0, {"should_abstain": False}).cluster_id
    'auto-b326effe5591'
    """

    features: Features
    label: Label
    metadata: JsonMapping = field(default_factory=dict)
    record_id: str = ""
    cluster_id: str = ""
    group: str = ""
    context: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping):
            raise InvalidValue(f"features must be a mapping, not {type(self.features).__name__}")
        if not isinstance(self.metadata, Mapping):
            raise InvalidValue(f"metadata must be a mapping, not {type(self.metadata).__name__}")
        self.label = _whole_label(self.label, self.record_id)
        if type(self.record_id) is not str or type(self.cluster_id) is not str:
            self.record_id, self.cluster_id = _text_id(self.record_id), _text_id(self.cluster_id)
        self.record_id = self.record_id or content_id(
            [self.features, self.label, self.metadata, *_optional(self.context)]
        )
        self.cluster_id = self.cluster_id or self.record_id

    @property
    def source(self) -> str:
        """Say whether the patient is real or synthetic, as far as the metadata state it."""
        stated = self.metadata.get("synthetic")
        return ("real", "synthetic")[stated] if isinstance(stated, bool) else "unstated"


def _text_id(name: object) -> str:
    if isinstance(name, str):
        return str(name)
    if name is None or hasattr(name, "__index__"):  # numbered patients
        return "" if name is None else str(name)
    raise InvalidValue(f"record_id and cluster_id must be text or a whole number, not {name!r}")


def _optional(*texts: str) -> tuple[str, ...]:
    """Leave out empty texts altogether, so that records without them keep their hash."""
    return texts if any(texts) else ()


def _whole_label(label: object, name: object) -> Label:
    if isinstance(label, str) and label.strip():
        return label
    try:
        whole = int(label)  # type: ignore[call-overload]
        if not hasattr(label, "__len__") and whole == label:  # also 1.0, and scalars of NumPy
            return int(whole)
    except (TypeError, ValueError, OverflowError):
        pass
    who = f"record {name!r}: " if name else ""
    raise InvalidValue(f"{who}label must be a whole number or a non-empty text, not {label!r}")


def content_id(content: object) -> str:
    """Derive a short, stable name from anything that JSON can hold."""
    return f"auto-{content_hash(content)[:12]}"


def content_hash(content: object) -> str:
    """Hash content by its canonical JSON, the same on every machine."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def case_hash(shown: Iterable[tuple[Mapping[str, object], str]]) -> str:
    """Hash what is shown of some cases, features and context, in any order."""
    return content_hash(sorted(content_hash([one, *_optional(context)]) for one, context in shown))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    tolist = getattr(value, "tolist", None)  # NumPy arrays and scalars
    return tolist() if callable(tolist) else str(value)


class Records(list[PatientRecord]):
    """Records that are hashed once, however often their hash is needed; they must not change."""

    __slots__ = ("_case_hash", "_content_hash")

    def __init__(self, records: Iterable[PatientRecord] = ()) -> None:
        super().__init__(records)
        self._content_hash = self._case_hash = ""

    def __repr__(self) -> str:
        return f"Records({len(self):,} records)"

    @property
    def content_hash(self) -> str:
        """Return the hash by which two runs prove that they saw the same cases."""
        self._content_hash = self._content_hash or records_hash(self)
        return self._content_hash

    @property
    def case_hash(self) -> str:
        """Return a hash of what is shown of the cases alone: no ids, no labels, in any order."""
        self._case_hash = self._case_hash or case_hash((r.features, r.context) for r in self)
        return self._case_hash


def first_records(records: Records, limit: int | None) -> Records:
    """Return the first records, and the rest of the last one's group: groups stay whole."""
    if limit is None or limit >= len(records):
        return records
    group, end = records[limit - 1].group, limit
    while group and end < len(records) and records[end].group == group:
        end += 1
    return Records(records[:end])


def _told(metadata: JsonMapping) -> JsonMapping:
    """Return metadata without the labels that follow from probabilities and costs."""
    if "answer_probabilities" not in metadata:
        return metadata
    return {name: value for name, value in metadata.items() if name not in _OF_COSTS}


def records_hash(records: Iterable[PatientRecord]) -> str:
    """Hash what was produced, so that two runs can prove that they saw the same cases."""
    return content_hash(
        [
            [
                r.record_id,
                r.cluster_id,
                r.features,
                r.label,
                _told(r.metadata),
                *_optional(r.group, r.context),
            ]
            for r in records
        ]
    )
