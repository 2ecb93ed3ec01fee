"""VMIs put to the webhook's judgement: what leaves it, or why it is refused."""

from gpu.admission import vmis
from gpu.admission.review import Denied
from gpu.admission.vmis import Plan
from gpu.config import Config
from tests.admission import starts
from tests.admission.starts import asked
from tests.builders import L40, START, a_claim, a_class, a_world, attachment

CONFIG = Config()
CLASSES = [a_class(maxCount=4), a_class("l40", resource=L40), a_class("old", retired=True)]
CLAIMS = [
    a_claim("one", on="n1"),
    a_claim("three", count=3, on="n1"),
    a_claim("l", class_name="l40"),
]


def a_start(body, **objects):
    world = a_world(**{"classes": CLASSES, "claims": CLAIMS, **objects})
    review = asked(body)
    return vmis.judge(review, vmis.read(review), world, CONFIG, START)


def admitted(body, ids=None, **objects):
    """The VMI as it leaves the webhook, its claims attached under an id that is their name's."""
    found = a_start(body, **objects)
    assert isinstance(found, Plan), found
    given = ids or {it.meta.name: f"id-{it.meta.name}" for it in found.found.held}
    return starts.patched(body, vmis.written(asked(body), found, given))


def refused(body, **objects):
    """Codes and paths of a refusal."""
    found = a_start(body, **objects)
    assert isinstance(found, Denied), found
    return [(cause.reason, cause.field) for cause in found.causes]


def path(index=0, place="gpus", member="deviceName"):
    return f"spec.domain.devices.{place}[{index}].{member}"


def attached(vm="vm", **more):
    return a_claim("one", on="n1", attached=attachment(vm, **more))
