"""Label and field selectors: the full grammar of both, with upstream's words for what is wrong."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from apiserver.wire.status import BadRequest

FIELDS: Final = ("metadata.name", "metadata.namespace")
"""What can be selected by; of what has no namespace only the name."""

_SYMBOLS: Final = "=!(),<>"
_END: Final = ""
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_PREFIX = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_OPERATORS: Final = ("in", "notin", "=", "==", "!=", ">", "<")


class Requirement(NamedTuple):
    """One label requirement; `operator` is =, !=, in, notin, exists, !, > or <."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Judge the labels; a key that is not there satisfies !, != and notin only."""
        value = labels.get(self.key)
        if value is None:
            return self.operator in {"!", "!=", "notin"}
        match self.operator:
            case "exists":
                return True
            case "!":
                return False
            case "=" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case _:
                return self._compares(value)

    def _compares(self, value: str) -> bool:
        limit = int(next(iter(self.values)))
        try:
            number = int(value)
        except ValueError:
            return False
        return number > limit if self.operator == ">" else number < limit


class FieldRequirement(NamedTuple):
    """One field requirement on a name known to `FIELDS`."""

    field: str
    value: str
    equal: bool

    def matches(self, namespace: str, name: str) -> bool:
        """Judge an object's name and namespace."""
        seen = name if self.field == "metadata.name" else namespace
        return (seen == self.value) is self.equal


class Selector(msgspec.Struct, frozen=True):
    """Everything that narrows a list; empty selects all."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Say whether everything is selected."""
        return not self.labels and not self.fields

    @property
    def name(self) -> str:
        """The one name asked for by `metadata.name=N`, else empty: what RBAC calls resourceName."""
        names = {f.value for f in self.fields if f.field == "metadata.name" and f.equal}
        return names.pop() if len(names) == 1 else ""

    def matches(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Judge one object by what it shows."""
        return all(field.matches(namespace, name) for field in self.fields) and all(
            requirement.matches(labels) for requirement in self.labels
        )


ALL: Final = Selector()


def parse(labels: str, fields: str, *, namespaced: bool = True) -> Selector:
    """Read both selectors. Raises BadRequest."""
    return Selector(parse_labels(labels), parse_fields(fields, namespaced=namespaced))


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector. Raises BadRequest saying what was found and what was expected."""
    return _LabelParser(text).requirements() if text else ()


def parse_fields(text: str, *, namespaced: bool = True) -> tuple[FieldRequirement, ...]:
    """Read a field selector. Raises BadRequest, naming the field when it is not known."""
    if not text:
        return ()
    known = FIELDS if namespaced else FIELDS[:1]
    return tuple(_field(term, text, known) for term in _terms(text) if term)


def _terms(text: str) -> list[str]:
    """Split at commas that no backslash protects."""
    terms, current, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            terms.append(current)
            current = ""
            continue
        escaped = char == "\\" and not escaped
        current += char
    return [*terms, current]


def _field(term: str, whole: str, known: Sequence[str]) -> FieldRequirement:
    match = re.match(r"([^=!]*)(!=|==|=)(.*)", term, re.DOTALL)
    if match is None:
        raise BadRequest(f"invalid selector: '{whole}'; can't understand '{term}'")
    field, operator, value = match.groups()
    if field not in known:
        told = ", ".join(f'"{one}"' for one in known)
        raise BadRequest(f'"{field}" is not a known field selector: only {told}')
    if re.search(r"(?<!\\)(\\\\)*=", value) or re.search(r"\\([^\\,=]|$)", value):
        raise BadRequest(f"invalid field selector: invalid value in '{term}'")
    return FieldRequirement(field, re.sub(r"\\(.)", r"\1", value), equal=operator != "!=")


class _LabelParser:
    """Upstream's recursive descent; `in` and `notin` are words except where an operator stands."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text.rstrip())
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def next(self) -> str:
        part = self.peek()
        self.at += 1
        return part

    def requirements(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        while True:
            part = self.peek()
            if part == _END and not found:
                return ()
            if not (_is_word(part) or part == "!"):
                expected = "identifier after ','" if found else "!, identifier, or 'end of string'"
                raise BadRequest(_found(part, expected))
            found.append(self.requirement())
            part = self.next()
            if part == _END:
                return tuple(found)
            if part != ",":
                raise BadRequest(_found(part, "',' or 'end of string'"))

    def requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.next()
        key = self.next()
        if not _is_word(key):
            raise BadRequest(_found(key, "identifier"))
        _check_key(key)
        if absent:
            return Requirement(key, "!")
        if self.peek() in {_END, ","}:
            return Requirement(key, "exists")
        operator = self.next()
        if operator not in _OPERATORS:
            raise BadRequest(_found(operator, ", ".join(_OPERATORS)))
        values = self.value_set() if operator in {"in", "notin"} else frozenset({self.value()})
        _check_values(key, operator, values)
        return Requirement(key, "=" if operator == "==" else operator, values)

    def value(self) -> str:
        if self.peek() in {_END, ","}:
            return ""
        part = self.next()
        if not _is_word(part):
            raise BadRequest(_found(part, "identifier"))
        return part

    def value_set(self) -> frozenset[str]:
        if (part := self.next()) != "(":
            raise BadRequest(_found(part, "'('"))
        values: set[str] = set()
        word = ""  # nothing between two commas is the empty value, as upstream reads `()` too
        while True:
            part = self.next()
            if part in {",", ")"}:
                values.add(word)
                word = ""
                if part == ")":
                    return frozenset(values)
            elif _is_word(part) and not word:
                word = part
            else:
                raise BadRequest(_found(part, "',', ')' or identifier"))


def _is_word(part: str) -> bool:
    return part != _END and part[0] not in _SYMBOLS


def _found(part: str, expected: str) -> str:
    return f"unable to parse requirement: found '{part}', expected: {expected}"


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    good = _NAME.fullmatch(name) is not None and (
        not slash or _PREFIX.fullmatch(prefix) is not None
    )
    if not good:
        raise BadRequest(
            f"unable to parse requirement: <nil>: Invalid value: {_quoted(key)}: name part must "
            "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character"
        )


def _check_values(key: str, operator: str, values: frozenset[str]) -> None:
    if operator in {">", "<"}:
        _check_each(key, values, lambda value: re.fullmatch(r"[+-]?\d{1,18}", value) is not None)
    else:
        _check_each(key, values, lambda value: not value or _NAME.fullmatch(value) is not None)


def _check_each(key: str, values: frozenset[str], good: Callable[[str], bool]) -> None:
    for value in sorted(values):
        if not good(value):
            raise BadRequest(
                f"unable to parse requirement: values[0][{key}]: Invalid value: {_quoted(value)}"
            )


def _quoted(text: str) -> str:
    return '"' + text[:256].replace("\\", "\\\\").replace('"', '\\"') + '"'
