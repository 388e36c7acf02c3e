"""`lexicon`: an offline reader of interviews by rules, so that PHQ-8 has figures without a key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest, PromptMode
from krisis.backends.lexicon_rules import WORDS_OF_ITEMS, Judgement, findings, judge
from krisis.backends.schema import case_name
from krisis.data.base import content_hash
from krisis.data.phq8.transcripts import Transcript
from krisis.errors import InvalidValue

_REFERENCE = re.compile(r"\(score ([0-3])\) «")
_OVERLOOKED_AT_ONE = 0.3
# What the rules state as probability of being right; whether it is one is for the metrics to say.
_STATED = {1: 0.4, 2: 0.5, 3: 0.7, 4: 0.8, 5: 0.9}


class LexiconBackend(ChatBackend):
    """Scores PHQ-8 items by keywords and frequency phrases, and abstains without evidence.

    It gets what a model gets, the transcript and the item, and its reply takes the same way. With
    a ``temperature`` above 0 it reads less carefully: each repeat overlooks sentences of its own
    choice, each with probability 0.3 · temperature.
    """

    name = "lexicon"
    provider = "lexicon"
    model = "rules-1"

    def __init__(self, *, temperature: float = 0.0) -> None:
        if not 0 <= temperature <= 1:
            raise InvalidValue(f"temperature must lie between 0 and 1, not {temperature!r}")
        self.temperature = float(temperature)

    def parameters(self, n_records: int) -> dict[str, Any]:
        """Return the temperature."""
        return {"temperature": self.temperature}

    def build(
        self,
        cases: Sequence[Mapping[str, Any]],
        *,
        mode: PromptMode,
        sample_index: int = 0,
        context: str = "",
    ) -> ChatRequest:
        """Hand over the transcript and the items as JSON; rules need no instructions."""
        for case in cases:
            _item_words(case)
        names = sorted({name for case in cases for name in case})
        shape = {"context": "[redacted]", "cases": [dict.fromkeys(names, "[redacted]")]}
        return ChatRequest(
            provider=self.provider,
            model=self.model,
            system="",
            user=json.dumps({"context": context, "cases": [dict(case) for case in cases]}),
            schema={},
            parameters=self.parameters(len(cases)),
            mode=mode,
            template=json.dumps(shape),
            n_records=len(cases),
            sample_index=sample_index,
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Read the transcript for every item."""
        asked = json.loads(request.user)
        transcript = Transcript.parse(asked["context"])
        overlooked = self._overlooked(asked["context"], request.sample_index)
        answers = [self._answer(case, transcript, overlooked) for case in asked["cases"]]
        named = [{"id": case_name(i), **answer} for i, answer in enumerate(answers)]
        reply = {"results": named} if request.mode == "batch" else answers[0]
        return ChatReply(json.dumps(reply, ensure_ascii=False), "stop", self.model)

    def _overlooked(self, context: str, sample_index: int) -> frozenset[int]:
        """Draw the sentences that this repeat does not read, the same for every item of a call."""
        if not self.temperature:
            return frozenset()
        rng = np.random.default_rng([int(content_hash(context)[:12], 16), sample_index])
        draws = rng.random(len(context))  # no text has more sentences than characters
        return frozenset(np.flatnonzero(draws < _OVERLOOKED_AT_ONE * self.temperature).tolist())

    def _answer(
        self, case: Mapping[str, Any], transcript: Transcript, overlooked: frozenset[int]
    ) -> dict[str, Any]:
        words = _item_words(case)
        found = list(findings(words, transcript, lambda number: number not in overlooked))
        references = [int(score) for score in _REFERENCE.findall(str(case.get("references", "")))]
        return _reply(judge(found, references))


def _item_words(case: Mapping[str, Any]) -> str:
    """Return which of the eight items a case is about; the check of stored prompts has none."""
    words = str(case.get("item", "no item")).partition(":")[0]
    if words not in WORDS_OF_ITEMS and words != "None":
        raise InvalidValue(
            f"the lexicon reads PHQ-8 items only, not {words!r:.60}; use it with the phq8 suite"
        )
    return words


def _reply(judgement: Judgement) -> dict[str, Any]:
    abstained = judgement.score is None
    sure = judgement.verbalized_confidence
    return {
        "evidence_quotes": list(judgement.quotes),
        "verbalized_confidence": sure,
        "abstained": abstained,
        "prediction": judgement.score,
        "confidence": None if abstained else _STATED[sure],
    }
