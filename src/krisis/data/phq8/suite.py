"""`PHQ8Suite`: one record per PHQ-8 item of a participant, scored from the interview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

from krisis.data.base import (
    BaseDataSuite,
    Features,
    Judgement,
    PatientRecord,
    Rule,
    SuiteConfig,
    Task,
    content_hash,
    member_of,
    options_from,
)
from krisis.data.phq8.corpus import Corpus, LabelledInterview, read_corpus
from krisis.data.phq8.interviews import (
    Cohort,
    Split,
    draw_cohort,
    draw_splits,
    write_interview,
)
from krisis.data.phq8.items import ITEM_KEYS, ITEMS
from krisis.data.phq8.lexicon import Lexicon
from krisis.data.phq8.posterior import score_probabilities
from krisis.data.phq8.retrieval import (
    ReferenceLibrary,
    RetrievalOptions,
    Retrieved,
    ScoredInterview,
)
from krisis.data.phq8.task import (
    TASK,
    TASK_WITHOUT_DEFERRAL,
    item_words,
    references_in_words,
)
from krisis.data.phq8.transcripts import Transcript, check_quotes
from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping, JsonObject

NOTICE = (
    "The interviews in {path} are your own copy and may be under a licence (DAIC-WOZ is: its "
    "terms forbid passing transcripts on, and a hosted model is a third party). krisis keeps "
    "participant ids, scores and figures in a run, and no text of the interviews or of replies."
)


class Mode(StrEnum):
    """Whether a model sees scored passages of other people."""

    ZERO_SHOT = "zero_shot"
    FEW_SHOT = "few_shot"


@dataclass(frozen=True, slots=True)
class _Case:
    """A participant as the suite holds them.

    ``withheld``, ``exchanges`` (the exchanges that show an item's score) and ``probabilities`` (of
    the scores of each item, given what is said of it) are empty where nobody knows.
    """

    transcript: Transcript
    scores: Mapping[str, int]
    split: Split
    withheld: Mapping[str, str] | None = None
    exchanges: Mapping[str, Sequence[int]] | None = None
    probabilities: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@lru_cache(maxsize=4)
def _synthetic_cases(
    n_synthetic: int, seed: int, test_size: float, cohort: Cohort, withheld_rate: float
) -> tuple[_Case, ...]:
    """Draw a cohort and write its interviews; the cells of a grid differ in other options."""
    people = draw_cohort(n_synthetic, seed=seed, cohort=cohort)
    splits = draw_splits(len(people), seed=seed, test_size=test_size)
    cases = []
    for person, split in zip(people, splits, strict=True):
        interview = write_interview(person, seed=seed, withheld_rate=withheld_rate, split=split)
        scores = dict(zip(ITEM_KEYS, person.scores, strict=True))
        shown = {
            key: numbers
            for key, numbers in interview.exchanges.items()
            if key not in interview.withheld
            and not (scores[key] and interview.first_claims.get(key) == 0)
        }
        known = score_probabilities(interview.evidence, cohort)
        cases.append(_Case(interview.transcript, scores, split, interview.withheld, shown, known))
    return tuple(cases)


class PHQ8Suite(BaseDataSuite):
    """PHQ-8 item scoring from interviews.

    Without ``data`` it is a seeded ``cohort`` of ``n_synthetic`` participants, adults at large
    (``community``) or people of a ``clinic``, whose interviews leave the evidence for some items
    out: these should be deferred. With ``data``, a DAIC-WOZ-style directory (and its ``labels``
    file), it is the user's interviews.
    """

    name = "phq8"
    # Only the author of an interview knows which items it gives no evidence for.
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType(
        {TASK.name: lambda suite: TASK if suite.data is None else TASK_WITHOUT_DEFERRAL}
    )
    baselines: tuple[str, ...] = ("rule/always-0", "majority", "lexicon", "always-abstain")
    run_format = "phq8-run"
    option_words: Mapping[str, str] = {
        "data": "Your own interviews: a folder such as DAIC-WOZ",
        "labels": "The labels file of that folder, or the folder of several",
        "mode": "zero_shot, or few_shot to show scored passages of other people",
        "split": "Who is evaluated: test, train or all",
        "retrieval": "Of few_shot: its options n_references and min_similarity",
        "withheld_rate": "Share of the items for which the interview gives no evidence",
        "cohort": "community (adults at large) or clinic",
    }
    rows_per_patient = len(ITEMS)

    def __init__(
        self,
        config: SuiteConfig | None = None,
        *,
        data: str | Path | None = None,
        labels: str | Path | None = None,
        mode: str = Mode.ZERO_SHOT,
        split: str = Split.TEST,
        retrieval: RetrievalOptions | JsonMapping | None = None,
        withheld_rate: float = 0.3,
        cohort: str = Cohort.COMMUNITY,
    ) -> None:
        super().__init__(config)
        if not 0 <= withheld_rate <= 1:
            raise InvalidValue(f"withheld_rate must be between 0 and 1, not {withheld_rate!r}")
        if data is not None and cohort != Cohort.COMMUNITY:
            raise InvalidValue("a cohort is drawn without data only; omit cohort= or data=")
        if labels is not None and data is None:
            raise InvalidValue("labels were given without data; name the interviews with data=")
        self.data = None if data is None else Path(data)
        self.labels = None if labels is None else Path(labels)
        self.mode = member_of(Mode, mode, "mode")
        self.split = member_of(Split, split, "split")
        self.retrieval = options_from(RetrievalOptions, retrieval, "retrieval")
        self.withheld_rate = withheld_rate
        self.cohort = member_of(Cohort, cohort, "cohort")
        self.stores_text = self.data is None
        self._licence = "" if self.data is None else NOTICE.format(path=self.data)
        self.notice = self._licence
        if self.data is None:  # the author of the interviews knows what each of them shows
            self.baselines = (*type(self).baselines, "ideal")

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the reader by keywords, the one that reads nothing, and the one without error."""
        rules: dict[str, Rule] = {
            "lexicon": Lexicon(),
            "always-0": lambda features, context: Judgement(0),
        }
        if self.data is not None:
            return rules
        return {**rules, "ideal": self._read_ideally}

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], tuple[float, ...]]:
        """Return the probability of each score of each item, given what is said of it."""
        return {
            (text, item_words(item)): case.probabilities[item.key]
            for case in self._cases
            for text in [case.transcript.text()]
            for item in ITEMS
        }

    @cached_property
    def _withheld(self) -> Mapping[tuple[str, str], str]:
        """Return which rule of the policy leaves an item undecided, by interview and words."""
        return {
            (case.transcript.text(), item_words(item)): (case.withheld or {})[item.key]
            for case in self._cases
            for item in ITEMS
            if item.key in (case.withheld or {})
        }

    def _read_ideally(self, features: Features, context: str) -> Judgement:
        """Judge at the least expected cost, by what is said of the item."""
        text = context, str(features["item"])
        rule = self._withheld.get(text) if self.config.by_policy else None
        signals: JsonObject = {"rules": [rule]} if rule else {}
        judged = Judgement.by_cost(self.task.costs, dict(enumerate(self._known[text])), signals)
        return replace(judged, answer=None, confidence=None, abstain=True) if rule else judged

    def load(self) -> list[PatientRecord]:
        """Return a record for each scored item of the split's participants, sorted by participant.

        These are eight, less those that the user's files have no score for.
        """
        if self._corpus is not None:
            self.notice = "\n".join(filter(None, (self._licence, self._corpus.account())))
        return list(self._records)

    def training_records(self) -> list[PatientRecord]:
        """Return the items of the train split, unless they are what is evaluated."""
        if self.split is not Split.TEST:
            return []
        return self._records_of([case for case in self._cases if case.split is Split.TRAIN])

    def review(self, record: PatientRecord, signals: JsonMapping) -> JsonMapping:
        """Check the quotes against the transcript and add the retrieval figures.

        Only a quote that the participant said counts as evidence. Quotes themselves are kept for
        synthetic interviews alone.
        """
        reviewed = {name: value for name, value in signals.items() if name != "evidence_quotes"}
        quotes = signals.get("evidence_quotes")
        if isinstance(quotes, list | tuple):
            # A replayed response was reviewed before: its rejected quotes stand apart.
            given = [str(quote) for quote in (*quotes, *signals.get("quotes_not_found", ()))]
            checked = check_quotes(Transcript.parse(record.context), given)
            reviewed["llm_evidence_count"] = len(checked.found)
            reviewed["n_quotes_not_found"] = len(checked.not_found)
            if self.stores_text:
                reviewed["evidence_quotes"] = list(checked.found)
                reviewed["quotes_not_found"] = list(checked.not_found)
        return {**reviewed, **record.metadata.get("retrieval", {})}

    def describe(self) -> JsonObject:
        """Say what is scored, by whom it was said and what was produced."""
        cases = self._cases
        return {
            **super().describe(),
            # Modes ask about the same cases in other words, so their runs can be compared.
            "content_hash": content_hash(
                [
                    [r.record_id, r.label, r.context, r.metadata.get("answer_probabilities")]
                    for r in self._records
                ]
            ),
            "mode": self.mode.value,
            "split": self.split.value,
            "n_participants": len(self._evaluated),
            "n_training_participants": sum(case.split is Split.TRAIN for case in cases),
            "synthetic": self.data is None,
            "provenance": _provenance(self.data, self.cohort, self.withheld_rate),
            "licence": self._licence or "Apache-2.0, as krisis itself",
            "data_sha256": content_hash(
                [[case.transcript.text(), dict(case.scores)] for case in cases]
            ),
            **({} if self.mode is Mode.ZERO_SHOT else asdict(self.retrieval)),
            **self._what_is_left_out(),
        }

    def _what_is_left_out(self) -> JsonObject:
        """Return who of the user's files is not used, and which items have no score."""
        if self._corpus is None:
            return {}
        holes = {
            case.transcript.participant_id: [key for key in ITEM_KEYS if key not in case.scores]
            for case in self._evaluated
        }
        return {
            "participants_left_out": self._corpus.left_out,
            "items_without_score": {name: keys for name, keys in holes.items() if keys},
        }

    @cached_property
    def _corpus(self) -> Corpus | None:
        return None if self.data is None else read_corpus(self.data, self.labels)

    @cached_property
    def _cases(self) -> Sequence[_Case]:
        if self._corpus is not None:
            return self._given(self._corpus)
        config = self.config
        return _synthetic_cases(
            config.synthetic_count,
            config.seed,
            config.held_out_share,
            self.cohort,
            self.withheld_rate,
        )

    def _given(self, corpus: Corpus) -> list[_Case]:
        interviews = corpus.usable()
        splits = _given_splits(interviews) or draw_splits(
            len(interviews), seed=self.config.seed, test_size=self.config.held_out_share
        )
        return [
            _Case(one.transcript, one.items, split)
            for one, split in zip(interviews, splits, strict=True)
        ]

    @property
    def _evaluated(self) -> list[_Case]:
        return [case for case in self._cases if self.split in (Split.ALL, case.split)]

    @cached_property
    def _records(self) -> list[PatientRecord]:
        return self._records_of(self._evaluated)

    @cached_property
    def _library(self) -> ReferenceLibrary:
        """Hold train participants only."""
        scored = [
            ScoredInterview(case.transcript, case.scores, case.exchanges)
            for case in self._cases
            if case.split is Split.TRAIN
        ]
        return ReferenceLibrary(scored, self.retrieval)

    def _records_of(self, cases: Sequence[_Case]) -> list[PatientRecord]:
        return [record for case in cases for record in self._items_of(case)]

    def _items_of(self, case: _Case) -> list[PatientRecord]:
        few_shot = self.mode is Mode.FEW_SHOT
        retrieved = self._library.retrieve(case.transcript) if few_shot else {}
        participant_id, context = case.transcript.participant_id, case.transcript.text()
        records = []
        for item in ITEMS:
            if item.key not in case.scores:
                continue
            found = retrieved.get(item.key, Retrieved())
            features = {"item": item_words(item)}
            if few_shot:
                features["references"] = references_in_words(found)
            records.append(
                PatientRecord(
                    features=features,
                    label=case.scores[item.key],
                    metadata=self._metadata(case, item.key, found),
                    record_id=f"{participant_id}-{item.key}",
                    cluster_id=participant_id,
                    group=participant_id,
                    context=context,
                )
            )
        return records

    def _metadata(self, case: _Case, key: str, found: Retrieved) -> JsonObject:
        metadata: JsonObject = {
            "item": key,
            "mode": self.mode.value,
            "split": case.split.value,
            "synthetic": self.data is None,
            "retrieval": found.signals(),
            "reference_participants": [one.participant_id for one in found.references],
        }
        if case.withheld is not None:
            chances = case.probabilities[key]
            reason, costs = case.withheld.get(key), self.task.costs
            due = costs.is_due(costs.best(dict(enumerate(chances)))[1])
            due = due or (self.config.by_policy and reason is not None)
            metadata["should_abstain"] = due
            metadata["abstain_reasons"] = [reason or "score_uncertain"] if due else []
            metadata["withheld"] = reason
            metadata["answer_probabilities"] = {str(s): chance for s, chance in enumerate(chances)}
        return metadata


def _provenance(data: Path | None, cohort: Cohort, withheld_rate: float) -> str:
    if data is not None:
        return f"the user's interviews in {data.name}"
    severity = "" if cohort is Cohort.COMMUNITY else ", raised as in a clinic"
    return (
        "synthetic interviews by krisis templates; scores with NHANES 2017-2018 item margins and "
        f"one latent severity{severity}; evidence withheld for a share of {withheld_rate:g} of "
        "the items"
    )


def _given_splits(interviews: Sequence[LabelledInterview]) -> list[Split]:
    """Return the splits that the user's file names, or nothing where it names none."""
    if not any(interview.split for interview in interviews):
        return []
    return [Split.TRAIN if one.split == "train" else Split.TEST for one in interviews]
