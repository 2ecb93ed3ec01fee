"""The MutatingWebhookConfiguration of the chart, as an API server stores it."""

import json

from gpu.config import Config
from gpu.model import launch_webhooks
from tests.binder import raws


def webhooks() -> raws.Raw:
    """Those of the chart, as far as they are looked at."""
    return {
        "metadata": {"name": "cozystack-gpu"},
        "webhooks": [
            {
                "name": one.name,
                "rules": [
                    {
                        "apiGroups": sorted(rule.groups),
                        "apiVersions": sorted(rule.versions),
                        "operations": sorted(rule.operations),
                        "resources": sorted(rule.resources),
                        "scope": rule.scope,
                    }
                    for rule in one.rules
                ],
                "matchConditions": [{"expression": it} for it in one.match_conditions],
                "objectSelector": json.loads(one.object_selector),
                "sideEffects": one.side_effects,
                "timeoutSeconds": one.timeout_seconds,
                "clientConfig": {
                    "service": dict(
                        zip(("namespace", "name", "path"), one.client_config, strict=True)
                    )
                },
            }
            for one in launch_webhooks.expected(Config())
        ],
    }
