"""Warning header lines: quoted, each once, and together no more than upstream sends."""

from collections.abc import Iterable
from typing import Final

TOTAL: Final = 4096
"""Characters of all texts; beyond it each is cut to `ITEM`, and what still does not fit is left out."""
ITEM: Final = 256


def lines(texts: Iterable[str]) -> list[str]:
    """Return the values of Warning headers for texts, in their order."""
    once = list(dict.fromkeys(texts))
    if sum(map(len, once)) > TOTAL:
        once = [text[:ITEM] for text in once]
    kept, room = [], TOTAL
    for text in once:
        room -= len(text)
        if room < 0:
            break
        kept.append(f'299 - "{_quoted(text)}"')
    return kept


def _quoted(text: str) -> str:
    """Escape a text for a quoted string of a header."""
    plain = "".join(char if " " <= char <= "~" else "?" for char in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
