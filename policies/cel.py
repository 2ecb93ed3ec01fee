"""CEL text: quoting, joining, message templates. Nothing here knows what is guarded."""

import re

_PLACE = re.compile(r"\{([a-z_]+)\}")
_PLAIN = re.compile(r"[A-Za-z_.]+")


def quote(text: str) -> str:
    """Return a CEL string literal for the text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def one_of(expression: str, values: tuple[str, ...]) -> str:
    """Say in CEL that the expression is one of the texts."""
    if len(values) == 1:
        return f"{expression} == {quote(values[0])}"
    return f"{expression} in [{', '.join(quote(value) for value in values)}]"


def all_of(*expressions: str) -> str:
    """Join with `&&`, each in brackets."""
    return _joined(" && ", expressions)


def any_of(*expressions: str) -> str:
    """Join with `||`, each in brackets."""
    return _joined(" || ", expressions)


def message(template: str, **parts: str) -> str:
    """Turn `pod {name}: no` into a CEL string, each `{part}` being a CEL expression of text.

    Raises KeyError for a part that is not given.
    """
    pieces: list[str] = []
    at = 0
    for found in _PLACE.finditer(template):
        if found.start() > at:
            pieces.append(quote(template[at : found.start()]))
        part = parts[found[1]]
        pieces.append(part if _PLAIN.fullmatch(part) else f"({part})")
        at = found.end()
    if at < len(template):
        pieces.append(quote(template[at:]))
    return " + ".join(pieces)


def _joined(with_: str, expressions: tuple[str, ...]) -> str:
    if len(expressions) == 1:
        return expressions[0]
    return with_.join(f"({expression})" for expression in expressions)
