"""A tiny model, made here: random at first, then taught one reply by heart."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from krisis.backends.catalogue import backend_from_name
from krisis.backends.chat import ChatReply
from krisis.backends.huggingface import TransformersBackend
from krisis.benchmark import Benchmark
from krisis.data.base import RecordListSuite
from krisis.errors import InvalidFile, InvalidValue, MalformedReply

pytestmark = [pytest.mark.hf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

REPLY = json.dumps({"abstained": False, "prediction": 3, "confidence": 0.8})
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"
)


def make_tokenizer(text: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text] * 3, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    fast.chat_template = TEMPLATE
    return fast


def make_model(n_tokens: int, end: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=n_tokens,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=4096,
            eos_token_id=end,
            bos_token_id=end,
        )
    )


def teach(model: Any, tokenizer: Any, prompts: list[str]) -> None:
    import torch

    answer = tokenizer(REPLY)["input_ids"] + [tokenizer.eos_token_id]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    examples = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    for step in range(120):
        question = examples[step % len(examples)]
        tokens = torch.tensor([question + answer])
        labels = torch.tensor([[-100] * len(question) + answer])
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss.item() < 0.01 and step > 2 * len(examples):
            break


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    tokenizer = make_tokenizer("Findings and serum creatinine " + REPLY)
    tokenizer.save_pretrained(folder)
    make_model(len(tokenizer), tokenizer.eos_token_id).save_pretrained(folder)
    return folder


@pytest.fixture
def taught_folder(random_folder: Path, suite: RecordListSuite, tmp_path: Path) -> Path:
    backend = TransformersBackend(str(random_folder))
    backend.prepare(suite)
    loaded = backend._loaded
    prompts = [
        loaded._text(backend.build([record.features], mode="single")) for record in suite.load()
    ]
    teach(loaded.model.train(), loaded.tokenizer, prompts)
    loaded.tokenizer.save_pretrained(tmp_path / "taught")
    loaded.model.save_pretrained(tmp_path / "taught")
    return tmp_path / "taught"


def test_a_taught_model_answers_with_signals_alone_and_together(
    taught_folder: Path, suite: RecordListSuite
) -> None:
    backend = backend_from_name(f"hf/{taught_folder}", max_output_tokens=60)
    result = Benchmark(suite, backend, batch_size=1, max_concurrency=3).run()
    for row in result.evaluation_results:
        assert row.error is None
        assert (row.prediction, row.confidence) == (3, 0.8)
        assert 0.5 < row.signals["token_msp"] <= 1
        assert row.signals["token_pe"] >= 0
        assert row.signals["token_energy"] <= 1e-6
        assert row.input_tokens is not None
        assert row.output_tokens is not None


def test_calls_that_come_together_are_generated_together(
    random_folder: Path, suite: RecordListSuite
) -> None:
    backend = TransformersBackend(str(random_folder), max_new_tokens=8)
    backend.prepare(suite)
    sizes: list[int] = []
    generate = backend._generate
    backend._generate = lambda requests: (sizes.append(len(requests)), generate(requests))[1]
    requests = [backend.build([r.features], mode="single") for r in suite.load()]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(backend.complete(request) for request in requests))

    together = asyncio.run(all_at_once())
    assert sizes == [3]
    alone = [asyncio.run(backend.complete(request)) for request in requests]
    assert [reply.text for reply in together] == [reply.text for reply in alone]
    assert [len(reply.logprobs) for reply in together] == [8, 8, 8]
    for reply in together:
        assert reply.finish_reason == "length"
        assert "".join(token.token for token in reply.logprobs) == reply.text


def test_a_random_model_gives_a_malformed_reply_not_an_answer(
    random_folder: Path, suite: RecordListSuite
) -> None:
    backend = TransformersBackend(str(random_folder), max_new_tokens=5)
    backend.prepare(suite)
    with pytest.raises(MalformedReply):
        backend.evaluate(suite.load()[0])


def test_other_architectures_are_refused_in_words(tmp_path: Path, suite: RecordListSuite) -> None:
    from transformers import T5Config

    config = T5Config(architectures=["T5ForConditionalGeneration"])
    config.save_pretrained(tmp_path)
    with pytest.raises(InvalidValue, match=r"is a T5ForConditionalGeneration.*causal"):
        TransformersBackend(str(tmp_path)).prepare(suite)


def test_a_folder_without_a_model_is_refused_in_words(
    tmp_path: Path, suite: RecordListSuite
) -> None:
    with pytest.raises(InvalidFile, match="cannot be loaded"):
        TransformersBackend(str(tmp_path)).prepare(suite)


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch, suite: RecordListSuite) -> TransformersBackend:
    """Return a backend that needs neither torch nor weights."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    backend = TransformersBackend("nobody/tiny")
    backend.task = suite.task
    return backend


def test_a_call_that_is_cut_leaves_the_others_theirs(
    unloaded: TransformersBackend, suite: RecordListSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generate(requests: list[Any]) -> list[ChatReply]:
        time.sleep(0.2)
        return [ChatReply(REPLY, "stop") for _ in requests]

    monkeypatch.setattr(unloaded, "_generate", generate)
    requests = [unloaded.build([r.features], mode="single") for r in suite.load()]

    async def cut_the_first() -> list[Any]:
        calls = [asyncio.create_task(unloaded.complete(request)) for request in requests]
        await asyncio.sleep(0.1)
        calls[0].cancel()
        return await asyncio.gather(*calls, return_exceptions=True)

    first, *others = asyncio.run(cut_the_first())
    assert isinstance(first, asyncio.CancelledError)
    assert [reply.text for reply in others] == [REPLY] * 2


def test_weights_that_are_missing_are_one_sentence_when_a_run_opens(
    unloaded: TransformersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str, device: str) -> None:
        raise OSError("no file named model.safetensors\nand much more")

    monkeypatch.setattr("krisis.backends.huggingface._LoadedModel.from_name", missing)
    with pytest.raises(
        InvalidFile, match=r"^the model 'nobody/tiny' cannot be loaded: no .*tensors$"
    ):
        asyncio.run(unloaded.aopen())
