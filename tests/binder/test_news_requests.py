"""Events about starts that asked the leader: refusals, and grants that wait for a cordon to be lifted."""

from dataclasses import replace

import pytest

from gpu.binder.answer_changes import Answer, ForgetRequest
from gpu.binder.changes import Place
from gpu.objects.claims import BindRequest, BindResult
from tests.binder.test_news import told
from tests.builders import START, a_claim

HELD = a_claim("x", on="n1")
MADE = a_claim("x", on="n1", template=True)
ASKED = BindRequest(id="r1", vmi="vm", claims=("x",), requested_at=START)
GRANTED = replace(ASKED, result=BindResult.SUCCEEDED, message="1 unit held on node n1")
REFUSED = replace(ASKED, result=BindResult.REFUSED, message="no room")
AT = {"at": START, "set_id": "tenant-a/x"}


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            Answer(claim=HELD, request=REFUSED, **AT),
            ["GPUClaim tenant-a/x StartRefused!: VM vm is not started: no room"],
        ),
        (Answer(claim=MADE, request=REFUSED, **AT), []),
        (Answer(claim=HELD, request=GRANTED, **AT), []),
        (
            Answer(claim=HELD, request=GRANTED, awaits_uncordon=True, **AT),
            ["GPUClaim tenant-a/x AwaitsUncordon: VM vm: 1 unit held on node n1"],
        ),
        (
            Place(claim=a_claim("x"), node="n1", answer=GRANTED, **AT),
            ["GPUClaim tenant-a/x Placed: 1 unit of h100 held on node n1"],
        ),
        (ForgetRequest(claim=HELD, **AT), []),
    ],
)
def test_what_is_told_of_an_answer(change, lines):
    assert told(change) == lines
