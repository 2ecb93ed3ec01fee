"""What GPUBinder's conditions say of what the phases of a pass found."""

import pytest

from gpu.binder import standing
from gpu.binder.phase import Findings
from gpu.model.usage import Kept, Standing
from gpu.objects.meta import Condition
from gpu.units import NodeName

GOOD = Findings(guard_looked=True, records=Standing(kept=Kept.PLAIN))


def test_when_all_is_well_each_condition_says_so():
    assert [(item.type, item.status, item.reason) for item in standing.of(GOOD)] == [
        ("LossesHeldBack", "False", "NothingHeldBack"),
        ("PlansChecked", "True", "Checked"),
        ("WritesAnswered", "True", "Answered"),
        ("RecordsKept", "True", "NoMonitor"),
    ]


def test_before_the_phase_of_records_ran_nothing_is_said_of_them():
    types = [item.type for item in standing.of(Findings(guard_looked=True))]
    assert types == ["LossesHeldBack", "PlansChecked", "WritesAnswered"]


def test_losses_held_back_name_nodes_numbers_and_the_command_for_each():
    found = Findings(
        held_back={NodeName("n2"): "b2", NodeName("n1"): "a1"}, sets_held_back=14, guard_limit=10
    )
    assert standing.losses(found) == Condition(
        type="LossesHeldBack",
        status="True",
        reason="HeldBack",
        message="14 sets of nodes n1, n2 would be moved or made Lost, more than the 10 that the "
        "guard lets through in its window: they stay as they are. Look at the nodes first: losses "
        "end by themselves when the cause passes. To let them through: "
        "kubectl annotate gpunode n1 gpu.cozystack.io/acknowledge-lost=a1 --overwrite; "
        "kubectl annotate gpunode n2 gpu.cozystack.io/acknowledge-lost=b2 --overwrite",
    )


def test_a_node_without_a_gpunode_is_acknowledged_on_gpubinder():
    found = Findings(held_back={NodeName("n1"): "a1"}, without_inventory=frozenset({"n1"}))
    assert standing.losses(found).message.endswith(
        "kubectl annotate gpubinder binder gpu.cozystack.io/acknowledge-lost=a1 --overwrite"
    )


def test_while_losses_are_not_looked_at_what_was_said_of_them_stands():
    types = [item.type for item in standing.of(Findings())]
    assert types == ["PlansChecked", "WritesAnswered"]


def test_one_set_of_one_node_is_told_in_the_singular():
    found = Findings(held_back={NodeName("n1"): "a1"}, sets_held_back=1, guard_limit=0)
    assert standing.losses(found).message.startswith("1 set of node n1 would")


def test_losses_of_many_nodes_are_told_in_a_message_that_can_be_stored():
    names = {NodeName(f"node-{i:03}.{'x' * 244}"): f"{i:012}" for i in range(300)}
    message = standing.losses(Findings(held_back=names, sets_held_back=300)).message
    assert " and 290 more would be moved" in message
    assert message.endswith("gpu.cozystack.io/acknowledge-lost=000000000009 --overwrite")


def test_a_plan_that_failed_the_checker_is_told():
    found = standing.plans("unit booked twice on n1")
    assert (found.status, found.reason) == ("False", "PlanFailed")
    assert found.message.endswith("was not written: unit booked twice on n1")


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (Standing(kept=Kept.PLAIN), "True", "under no monitor"),
        (Standing(kept=Kept.UNDER_MONITOR), "True", "under WorkloadMonitor cozystack-gpu-usage"),
        (Standing(kept=Kept.HOST_DELETES), "True", "the host deletes Workloads without a monitor"),
        (
            Standing(kept=Kept.HOST_DELETES, fought_over=2),
            "False",
            "2 records deleted 3 times or more, being under no monitor: set usageRecordMonitor",
        ),
        (
            Standing(kept=Kept.HOST_DELETES, fought_over=1, anchored=True),
            "False",
            "of their namespaces: look who deletes Workloads",
        ),
        (
            Standing(kept=Kept.NAME_TAKEN, taken=("tenant-a/gpuclaim-x",)),
            "False",
            "bear the names of records: tenant-a/gpuclaim-x: delete them",
        ),
        (Standing(kept=Kept.NOT_SERVED), "Unknown", "no usage is recorded"),
    ],
    ids=lambda item: item.kept.value if isinstance(item, Standing) else None,
)
def test_how_records_are_kept_is_told_with_what_to_do(found, status, words):
    told = standing.records(found)
    assert (told.type, told.status, told.reason) == ("RecordsKept", status, found.kept.value)
    assert words in told.message


def test_every_way_of_keeping_records_is_worded():
    assert {standing.records(Standing(kept=kept)).reason for kept in Kept} == set(Kept)


def test_sets_without_answers_are_told_by_name_ten_at_most():
    assert standing.writes(["tenant-a/x"]).message.startswith(
        "the API server answers others, and gave no answer to writes of 1 set: tenant-a/x. They are"
    )
    many = standing.writes([f"tenant-a/x{at:02}" for at in range(12)])
    assert "writes of 12 sets: tenant-a/x00, " in many.message
    assert "tenant-a/x09 and 2 more. They are" in many.message
