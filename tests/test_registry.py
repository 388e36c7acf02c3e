"""Built-ins and plug-ins enter by the same door."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from krisis import registry
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics import Accuracy


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Pretend that the returned names are registered by an installed package."""
    points: dict[str, str] = {}

    def entry_points(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry.table.cache_clear()
    monkeypatch.setattr(registry, "table", registry.table.__wrapped__)
    return points


def test_a_built_in_is_found_by_name() -> None:
    assert registry.find("metrics", "accuracy") is Accuracy


@pytest.mark.parametrize(
    "kind", ["suites", "backends", "metrics", "bundles", "formats", "commands"]
)
def test_every_registered_name_leads_to_a_class(kind: registry.Kind) -> None:
    for name in registry.BUILT_IN[kind]:
        assert callable(registry.find(kind, name)), name


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="unknown metric 'acuracy'; did you mean 'accuracy'"):
        registry.find("metrics", "acuracy")


def test_a_plug_in_is_found_like_a_built_in(plugins: dict[str, str]) -> None:
    plugins["mine"] = "krisis.metrics.accuracy:Accuracy"
    assert "mine" in registry.names("metrics")
    assert registry.find("metrics", "mine") is Accuracy


def test_a_plug_in_cannot_take_a_name_of_krisis(plugins: dict[str, str]) -> None:
    plugins["accuracy"] = "elsewhere:Accuracy"
    with pytest.raises(InvalidValue, match="rename its entry point"):
        registry.find("metrics", "accuracy")
