"""A real sentence encoder, made here with random weights: the same text is nearest to itself."""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np
import pytest

from krisis.data.base import SuiteConfig
from krisis.data.phq8.embedding import make_embedder
from krisis.data.phq8.suite import PHQ8Suite
from krisis.errors import InvalidFile

pytestmark = [pytest.mark.hf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def make_encoder(folder: Path) -> Path:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    letters = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    shape = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    transformers.BertModel(shape).save_pretrained(folder)
    return folder


def test_a_sentence_encoder_embeds_and_retrieves(tmp_path: Path) -> None:
    name = f"sentence-transformers/{make_encoder(tmp_path)}"
    rows = make_embedder(name).embed(["i sleep badly", "i sleep badly", "no appetite"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    suite = PHQ8Suite(SuiteConfig(n_synthetic=10), mode="few_shot", retrieval=name)
    assert any(record.metadata["retrieval"]["retrieval_reference_count"] for record in suite.load())


def test_a_model_that_is_nowhere_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(InvalidFile, match="cannot be loaded"):
        make_embedder(f"sentence-transformers/{tmp_path / 'nowhere'}")
