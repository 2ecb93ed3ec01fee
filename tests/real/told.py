"""What the product said before a real test failed: without it a failure elsewhere tells nothing."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from devcluster.product import Product

LINES: Final = 80
_CHATTER: Final = '"msg": "request"'


def logs(fixtures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield for each replica of a test's fixtures its log's name and last words, requests left out."""
    products = [getattr(one, "product", one) for one in fixtures.values()]
    for product in products:
        if isinstance(product, Product):
            for replica in product.replicas.values():
                yield replica.identity, "\n".join(_last(replica.log))


def _last(log: Path) -> Iterable[str]:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError as error:
        return [str(error)]
    return [line for line in lines if _CHATTER not in line][-LINES:]
