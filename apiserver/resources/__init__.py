"""RESOURCES: the ordered table of what is served; discovery, routes and authz all read it."""

from typing import Final

from apiserver.resources.base import Resource
from apiserver.resources.explanations import EXPLANATIONS
from apiserver.resources.offers import OFFERS
from apiserver.resources.options import OPTIONS
from apiserver.resources.orderreviews import ORDER_REVIEWS
from apiserver.resources.quotareviews import QUOTA_REVIEWS
from apiserver.resources.quotas import QUOTAS

RESOURCES: Final[tuple[Resource, ...]] = (
    OPTIONS,
    OFFERS,
    QUOTAS,
    EXPLANATIONS,
    ORDER_REVIEWS,
    QUOTA_REVIEWS,
)
