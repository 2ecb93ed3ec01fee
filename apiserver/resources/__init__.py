"""RESOURCES: the ordered table of what is served; discovery, routes and authz all read it."""

from typing import Final

from apiserver.resources import drainplans, whatifs
from apiserver.resources.base import Resource
from apiserver.resources.drainplans import DRAIN_PLANS
from apiserver.resources.explanations import EXPLANATIONS
from apiserver.resources.offers import OFFERS
from apiserver.resources.options import OPTIONS
from apiserver.resources.orderreviews import ORDER_REVIEWS
from apiserver.resources.quotareviews import QUOTA_REVIEWS
from apiserver.resources.quotas import QUOTAS
from apiserver.resources.whatifs import WHAT_IFS
from gpu.config import Config

RESOURCES: Final[tuple[Resource, ...]] = (
    OPTIONS,
    OFFERS,
    QUOTAS,
    EXPLANATIONS,
    ORDER_REVIEWS,
    QUOTA_REVIEWS,
    DRAIN_PLANS,
    WHAT_IFS,
)
"""As the default configuration has them."""


def served(config: Config) -> tuple[Resource, ...]:
    """Return the table as a process with this configuration serves it."""
    own = {one.plural: one for one in (drainplans.resource(config), whatifs.resource(config))}
    return tuple(own.get(one.plural, one) for one in RESOURCES)
