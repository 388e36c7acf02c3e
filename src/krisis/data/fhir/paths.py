"""A FHIRPath that a user names: parsed once, and refused where it would identify a person."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from krisis.errors import InvalidValue, MissingExtra, UnknownName
from krisis.json_values import JsonObject, JsonValue

# Who somebody is: never a feature, whatever the path around it.
_IDENTIFYING = frozenset(
    {
        *("identifier", "name", "address", "telecom", "photo", "contact", "div", "id", "subject"),
        *("performer", "participant", "generalPractitioner", "asserter", "recorder", "requester"),
        *("author", "link", "contained"),
    }
)
# Functions that reach every element below, those above included, and those that follow the clock.
_REFUSED = {
    **dict.fromkeys(("children", "descendants", "repeat"), "reaches names and narrative"),
    **dict.fromkeys(("now", "today", "timeOfDay"), "gives another value every day"),
    "trace": "prints what it finds",
    "toString": "writes out whole resources, names included",
}
BIRTH_DATE = "Patient.birthDate"
Evaluate = Callable[..., list[JsonValue]]


@dataclass(slots=True)
class CheckedPath:
    """A path and the types of resources that it reads.

    Most resources are of another code than the one asked for, so `Type.where(…)` at the start is
    evaluated once for each value of the elements that it looks at.
    """

    text: str
    kinds: frozenset[str]
    _evaluate: Evaluate
    _criterion: Evaluate | None = None
    _elements: tuple[str, ...] = ()
    _known: dict[str, bool] = field(default_factory=dict)

    def values(self, resources: Sequence[JsonObject], place: str) -> list[JsonValue]:
        """Return what the path finds in resources that it sees as one collection."""
        try:
            if self._criterion is not None:
                resources = [one for one in resources if self._meets(one, self._key(one))]
            return self._evaluate(resources)
        except Exception as error:  # whatever the engine raises is a fault of path or data
            says = str(error).partition("{")[0].strip()  # what follows is the resource itself
            raise InvalidValue(
                f"{place}: the path {self.text!r} cannot be evaluated: {says}; correct the path"
            ) from error

    def may_match(self, resource: JsonObject, keys: dict[tuple[str, ...], str]) -> bool:
        """Say whether a resource of a type that is read meets the first criterion.

        ``keys`` keeps what columns that look at the same elements ask of one resource.
        """
        if self._criterion is None:
            return True
        key = keys.get(self._elements)
        if key is None:
            key = keys[self._elements] = self._key(resource)
        return self._meets(resource, key)

    def _key(self, resource: JsonObject) -> str:
        return repr([resource.get(name) for name in self._elements])

    def _meets(self, resource: JsonObject, key: str) -> bool:
        if key not in self._known:
            self._known[key] = self._criterion is not None and bool(self._criterion([resource]))
        return self._known[key]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_name: bool
    start: int


def checked_path(text: str, what: str) -> CheckedPath:
    """Parse a path and refuse one that is not FHIRPath, starts nowhere, or identifies a person."""
    try:
        import fhirpathpy
        from fhirpathpy.models import models
    except ImportError:
        raise MissingExtra.named("fhir", "a FHIR source") from None
    tokens = _tokens(text, what)
    parents: dict[str, str] = models["r4"]["type2Parent"]
    resources = {kind for kind, parent in parents.items() if parent.endswith("Resource")}
    named = [t.text for i, t in enumerate(tokens) if t.is_name and _is_head(tokens, i)]
    first = next((token.text for token in tokens if token.text != "("), "")
    if first not in resources or first == "DomainResource":
        raise InvalidValue(
            f"{what}: the path {text!r} must begin with a type of FHIR R4 resource, such as "
            f"Observation, not {first!r}"
        )
    _refuse_identity(tokens, text, what, resources)
    kinds = frozenset(resources.intersection(named))
    split = _first_criterion(tokens, models["r4"]["choiceTypePaths"])
    if split is None or len(kinds) > 1:
        return CheckedPath(text, kinds, fhirpathpy.compile(text, models["r4"]))
    end, elements = split
    return CheckedPath(
        text,
        kinds,
        _evaluate=fhirpathpy.compile(first + text[end:], models["r4"]),
        _criterion=fhirpathpy.compile(text[:end], models["r4"]),
        _elements=elements,
    )


def _tokens(text: str, what: str) -> list[_Token]:
    """Return the tokens of a path; the engine's own parser would overlook most mistakes."""
    from antlr4 import CommonTokenStream, InputStream  # type: ignore[import-untyped]
    from antlr4.error.ErrorListener import (  # type: ignore[import-untyped]
        ErrorListener,
    )
    from fhirpathpy.engine.invocations import invocation_registry
    from fhirpathpy.parser.generated.FHIRPathLexer import FHIRPathLexer
    from fhirpathpy.parser.generated.FHIRPathParser import FHIRPathParser

    faults: list[str] = []

    class Listener(ErrorListener):  # type: ignore[misc]
        def syntaxError(self, *found: object) -> None:  # noqa: N802
            faults.append(f"column {int(str(found[3])) + 1}: {found[4]}")

    lexer = FHIRPathLexer(InputStream(text))
    parser = FHIRPathParser(CommonTokenStream(lexer))
    for part in (lexer, parser):
        part.removeErrorListeners()
        part.addErrorListener(Listener())
    parser.entireExpression()  # type: ignore[no-untyped-call]
    if faults:
        raise InvalidValue(f"{what}: {text!r} is not FHIRPath ({faults[0]}); correct the path")
    names = (FHIRPathLexer.IDENTIFIER, FHIRPathLexer.DELIMITEDIDENTIFIER)
    raw = [token for token in parser.getTokenStream().tokens if token.channel == 0]
    found = [_Token(t.text.strip("`"), t.type in names, t.start) for t in raw if t.type != -1]
    functions = [name for name in invocation_registry if name.isalpha() and name not in _REFUSED]
    for token, following in pairwise(found):
        if token.is_name and following.text == "(" and token.text in _REFUSED:
            raise InvalidValue(
                f"{what}: the path {text!r} calls {token.text}(), which {_REFUSED[token.text]}; "
                "name the element itself"
            )
        if token.is_name and following.text == "(" and token.text not in functions:
            raise UnknownName.among(f"function in the path of {what}:", token.text, functions)
    return found


def _is_head(tokens: Sequence[_Token], index: int) -> bool:
    """Say whether a name starts a path, and is no member, function or name of a type."""
    before = tokens[index - 1].text if index else ""
    is_type = before in (".", "as", "is") or (
        before == "(" and index > 1 and tokens[index - 2].text in ("ofType", "as", "is")
    )
    return not is_type


def _refuse_identity(tokens: Sequence[_Token], text: str, what: str, resources: set[str]) -> None:
    for index, token in enumerate(tokens):
        before = [one.text for one in tokens[max(0, index - 2) : index]]
        follows_type = before[-1:] != ["."] or before[0] in resources
        is_call = tokens[index + 1 : index + 2] and tokens[index + 1].text == "("
        member = token.is_name and not is_call
        if member and (token.text in _IDENTIFYING or (token.text == "text" and follows_type)):
            raise InvalidValue(
                f"{what}: the path {text!r} names {token.text!r}, which can identify a person; "
                "names, identifiers, addresses, contacts, photos and narrative are never read"
            )
        if member and token.text == "birthDate" and "".join(t.text for t in tokens) != BIRTH_DATE:
            raise InvalidValue(
                f"{what}: the birth date is read only as {BIRTH_DATE!r}, which becomes the age at "
                f"the index date, not as {text!r}"
            )


def _first_criterion(
    tokens: Sequence[_Token], choices: Container[str]
) -> tuple[int, tuple[str, ...]] | None:
    """Return where `Type.where(…)` ends and the elements it looks at; None without such a start."""
    if [token.text for token in tokens[1:4]] != [".", "where", "("]:
        return None
    calls = [True]
    elements: list[str] = []
    for index in range(4, len(tokens)):
        token, before = tokens[index], tokens[index - 1]
        if token.text == ")":
            calls.pop()
            if not calls:
                return token.start + 1, tuple(dict.fromkeys(elements))
        elif token.text == "(":
            calls.append(before.is_name)
        elif token.text[:1] in "$%":
            return None
        elif token.is_name and sum(calls) == 1 and _is_head(tokens, index):
            if tokens[index + 1].text == "(" or f"{tokens[0].text}.{token.text}" in choices:
                return None
            elements.append(token.text)
    return None
