"""What the product said: before a real test failed, and of refusals that it could not prove in time."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from devcluster.product import Product

LINES: Final = 80
_CHATTER: Final = '"msg": "request"'
_UNPROVED: Final = '"msg": "caches not proved current"'


def logs(fixtures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield for each replica of a test's fixtures its log's name and last words, requests left out."""
    products = [getattr(one, "product", one) for one in fixtures.values()]
    for product in products:
        if isinstance(product, Product):
            for replica in product.replicas.values():
                yield replica.identity, "\n".join(_last(replica.log))


def unproved(product: Product) -> int:
    """Return how often replicas said that a refusal stands as of a moment ago (decision 22)."""
    logs = [replica.log for replica in product.replicas.values()]
    return sum(log.read_text(errors="replace").count(_UNPROVED) for log in logs)


def _last(log: Path) -> Iterable[str]:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError as error:
        return [str(error)]
    return [line for line in lines if _CHATTER not in line][-LINES:]
