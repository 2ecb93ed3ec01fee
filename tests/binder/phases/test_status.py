"""Phase status: World in, changes out."""

from dataclasses import replace
from typing import Any

import pytest

from gpu.binder import bodies
from gpu.binder.changes import ReportBinder, ReportClass, ReportNode, WriteSettings
from gpu.binder.phases import status
from gpu.config import Config, RawPlacement
from gpu.objects.meta import Condition
from gpu.objects.nodes import NodeUnits
from gpu.settings import RawNames, Settings
from gpu.units import NodeName, ResourceName
from tests.binder import raws
from tests.binder.installed_webhooks import webhooks
from tests.binder.scenes import NOW, a_scene, only

SINCE = "2026-01-01T10:00:00Z"
OTHER = "nvidia.com/OTHER"


def settings_map(names: str = raws.RESOURCE, raw: str = "denied", **more: str) -> raws.Raw:
    return {
        "metadata": {"name": "cozystack-gpu-settings", "namespace": "cozy-system"},
        "data": {"resourceNames": names, "rawResourceNames": raw, **more},
    }


def kubevirt(*names: str) -> raws.Raw:
    table = {"pciHostDevices": [{"resourceName": name} for name in names]}
    return {
        "metadata": {"name": "kubevirt", "namespace": "cozy-kubevirt"},
        "spec": {"configuration": {"permittedHostDevices": table}},
    }


def scene(**objects: Any):
    return a_scene(
        **{
            "classes": [raws.a_class()],
            "nodes": [raws.a_node("n1", units=8), raws.a_node("n2", units=4)],
            "config_maps": [settings_map()],
            "webhooks": [webhooks()],
            **objects,
        }
    )


def the_class(found: Any) -> ReportClass:
    return only(item for item in status.changes_of(found) if isinstance(item, ReportClass))


def condition(report: ReportClass, kind: str) -> tuple[str, str]:
    found = only(item for item in report.conditions if item.type == kind)
    return found.status, found.reason


def test_a_class_tells_its_units_and_nodes():
    held = raws.a_claim(count=3, status=raws.bound("n1"))
    found = scene(claims=[held], nodes=[raws.a_node("n1"), raws.a_node("n2", unschedulable=True)])
    assert the_class(found) == ReportClass(
        offer=found.world.classes[0],
        capacity=16,
        allocatable=8,
        held=3,
        free=5,
        nodes=(NodeName("n1"), NodeName("n2")),
        node_count=2,
        conditions=(
            Condition(
                type="Ready",
                status="True",
                reason="Served",
                message="nodes that serve nvidia.com/H100 take its sets",
                since=NOW,
                observed_generation=1,
            ),
            Condition(
                type="Permitted",
                status="True",
                reason="NoTable",
                message="KubeVirt has no permittedHostDevices: nothing is barred",
                since=NOW,
                observed_generation=1,
            ),
            Condition(
                type="HoldsNotEnforced",
                status="False",
                reason="Enforced",
                message="launchers that ask for units of a class are held at the gate",
                since=NOW,
                observed_generation=1,
            ),
        ),
    )


def test_what_this_very_pass_placed_is_counted():
    found = scene(claims=[raws.a_claim(count=2)])
    found.draft.bind(found.world.claims[0], NodeName("n1"))
    report = the_class(found)
    assert (report.held, report.free) == (2, 10)


READY = {
    "deleting": (
        {"classes": [raws.a_class(meta={"deletionTimestamp": "2026-01-01T01:00:00Z"})]},
        ("False", "Deleting"),
    ),
    "retired": ({"classes": [raws.a_class(retired=True)]}, ("False", "Retired")),
    "no node serves it": ({"nodes": [raws.a_node(resource=OTHER)]}, ("False", "NoNodeServes")),
    "every node is cordoned": (
        {"nodes": [raws.a_node(unschedulable=True)]},
        ("False", "NoNodeEligible"),
    ),
    "served": ({}, ("True", "Served")),
}


@pytest.mark.parametrize(("objects", "expected"), READY.values(), ids=READY)
def test_ready_says_whether_a_class_takes_orders(objects, expected):
    assert condition(the_class(scene(**objects)), "Ready") == expected


@pytest.mark.parametrize(
    ("kubevirts", "expected"),
    [
        ([], ("True", "NoTable")),
        ([kubevirt(raws.RESOURCE, OTHER)], ("True", "Listed")),
        ([kubevirt(OTHER)], ("False", "NotListed")),
    ],
    ids=["no table", "listed", "not listed"],
)
def test_permitted_follows_kubevirts_table(kubevirts, expected):
    assert condition(the_class(scene(kubevirts=kubevirts)), "Permitted") == expected


def published(report: ReportClass, **more: Any) -> dict[str, Any]:
    """The status a class has after the report was written."""
    return {
        "observedGeneration": 1,
        "capacity": report.capacity,
        "allocatable": report.allocatable,
        "held": report.held,
        "free": report.free,
        "nodes": list(report.nodes),
        "nodeCount": report.node_count,
        "conditions": [
            {
                "type": item.type,
                "status": item.status,
                "reason": item.reason,
                "message": item.message,
                "lastTransitionTime": SINCE,
                "observedGeneration": item.observed_generation,
            }
            for item in report.conditions
        ],
        **more,
    }


def test_a_status_that_is_right_is_not_written_whenever_it_began():
    stored = published(the_class(scene()))
    found = scene(classes=[raws.a_class(status=stored)])
    assert [item for item in status.changes_of(found) if isinstance(item, ReportClass)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"free": 11},
        {"held": 1},
        {"capacity": 0},
        {"allocatable": 0},
        {"nodes": ["n1"]},
        {"nodeCount": 1},
        {"conditions": []},
        {"observedGeneration": 0},
    ],
    ids=str,
)
def test_a_status_edited_by_somebody_else_is_written_anew(wrong):
    report = the_class(scene())
    found = scene(classes=[raws.a_class(status=published(report) | wrong)])
    assert the_class(found).free == report.free


def test_a_condition_keeps_its_time_while_its_status_stays():
    stored = published(the_class(scene(classes=[raws.a_class(retired=True)])))
    going = {"deletionTimestamp": "2026-01-01T01:00:00Z"}
    report = the_class(scene(classes=[raws.a_class(meta=going, status=stored)]))
    ready = only(item for item in report.conditions if item.type == "Ready")
    assert ready.reason == "Deleting"
    assert ready.since is not None
    assert ready.since.isoformat() == "2026-01-01T10:00:00+00:00"


def test_names_of_nodes_are_cut_to_what_the_schema_takes_and_their_number_is_not():
    report = the_class(scene(nodes=[raws.a_node(f"n{n:04d}") for n in range(600)]))
    assert (len(report.nodes), report.nodes[-1], report.node_count) == (512, "n0511", 600)


def test_a_node_tells_units_held_and_free_per_resource():
    both = raws.a_node("n1", units=8)
    both["status"]["allocatable"][OTHER] = "2"
    found = scene(
        classes=[raws.a_class(), raws.a_class("other", resource=OTHER)],
        nodes=[both],
        inventory=[raws.an_inventory("n1")],
        claims=[raws.a_claim(count=3, status=raws.bound("n1"))],
    )
    report = only(item for item in status.changes_of(found) if isinstance(item, ReportNode))
    assert report == ReportNode(
        node=found.world.inventory[0],
        resources=(
            NodeUnits(name=ResourceName(raws.RESOURCE), held=3, free=5),
            NodeUnits(name=ResourceName(OTHER), held=0, free=2),
        ),
    )


def test_a_node_whose_units_are_right_is_not_written():
    stored = {"resources": [{"name": raws.RESOURCE, "held": 0, "free": 8}]}
    found = scene(inventory=[raws.an_inventory("n1", status=stored)])
    assert [item for item in status.changes_of(found) if isinstance(item, ReportNode)] == []


def test_a_node_that_serves_nothing_any_more_loses_its_numbers():
    stored = {"resources": [{"name": raws.RESOURCE, "held": 0, "free": 8}]}
    found = scene(inventory=[raws.an_inventory("gone", status=stored)])
    report = only(item for item in status.changes_of(found) if isinstance(item, ReportNode))
    assert report.resources == ()


def settings_written(found: Any) -> WriteSettings:
    return only(item for item in status.changes_of(found) if isinstance(item, WriteSettings))


def test_missing_settings_are_created_from_classes_and_kubevirts_table():
    config = replace(Config(), raw_names=RawNames.ALLOWED)
    found = scene(config_maps=[], kubevirts=[kubevirt(OTHER, raws.RESOURCE)], config=config)
    names = (ResourceName(raws.RESOURCE), ResourceName(OTHER))
    assert settings_written(found) == WriteSettings(
        settings=Settings(names, RawNames.ALLOWED),
        exists=False,
        problem="the settings ConfigMap does not exist",
    )


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        (settings_map("by hand"), "data.resourceNames is 'by hand', not 'nvidia.com/H100'"),
        (settings_map(""), "data.resourceNames is '', not 'nvidia.com/H100'"),
        (settings_map(raw="perhaps"), "data.rawResourceNames is 'perhaps', not 'denied'"),
        (
            {**settings_map(), "data": {"resourceNames": raws.RESOURCE}},
            "data.rawResourceNames is missing, not 'denied'",
        ),
    ],
    ids=["malformed", "empty", "no such word", "key missing"],
)
def test_settings_edited_by_hand_are_healed_and_the_problem_told(stored, problem):
    change = settings_written(scene(config_maps=[stored]))
    assert (change.exists, change.problem) == (True, problem)


def test_settings_that_are_right_are_left_alone_with_keys_of_others():
    found = scene(config_maps=[settings_map(note="mine")])
    assert [item for item in status.changes_of(found) if isinstance(item, WriteSettings)] == []


def the_binder(**more: Any) -> raws.Raw:
    return {"metadata": {"name": "binder"}, "status": {"term": 1, **more}}


def binder_report(found: Any) -> ReportBinder:
    return only(item for item in status.changes_of(found) if isinstance(item, ReportBinder))


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (0, "it goes now"),
        (1, "1 claim names it: it goes when that is deleted"),
        (3, "3 claims name it: it goes when they are deleted"),
    ],
)
def test_a_class_that_is_being_deleted_says_how_many_claims_it_waits_for(held, says):
    going = raws.a_class(meta={"deletionTimestamp": "2026-01-01T01:00:00Z"})
    claims = [raws.a_claim(f"c{i}", status=raws.bound("n1")) for i in range(held)]
    other = raws.a_claim("other", class_name="l40")
    report = the_class(scene(classes=[going], claims=[*claims, other]))
    ready = only(item for item in report.conditions if item.type == "Ready")
    assert ready.message == f"being deleted, takes no order; {says}"


def test_the_binder_tells_the_settings_in_force_and_its_own_conditions_alone():
    leading = {"type": "Leading", "status": "True", "reason": "Elected", "message": "pod-1"}
    found = scene(binders=[the_binder(conditions=[leading])])
    found.findings.guard_looked = True
    report = binder_report(found)
    assert report.settings == Settings((ResourceName(raws.RESOURCE),), RawNames.DENIED)
    assert [(item.type, item.status) for item in report.conditions] == [
        ("SettingsCurrent", "True"),
        ("Enabled", "True"),
        ("HoldsNotEnforced", "False"),
        ("LossesHeldBack", "False"),
        ("PlansChecked", "True"),
        ("WritesAnswered", "True"),
    ]


def test_a_binder_that_tells_all_of_it_is_not_written():
    told = bodies.list_of(binder_report(scene(binders=[the_binder()])).conditions)
    settings = {"resourceNames": [raws.RESOURCE], "rawResourceNames": "denied"}
    found = scene(binders=[the_binder(conditions=told, settings=settings)])
    assert tuple(item for item in status.changes_of(found) if isinstance(item, ReportBinder)) == ()


def test_settings_that_cannot_be_healed_are_told_and_the_last_good_ones_stay_in_force():
    found = scene(
        config_maps=[settings_map("by hand")],
        binders=[the_binder()],
        skip={"ConfigMap cozy-system/cozystack-gpu-settings"},
    )
    report = binder_report(found)
    assert report.settings == Settings()
    current = only(item for item in report.conditions if item.type == "SettingsCurrent")
    assert (current.status, current.reason) == ("False", "WriteRefused")
    assert "'by hand'" in current.message


@pytest.mark.parametrize(
    ("skip", "left_out"),
    [
        ("GPUClass h100", ReportClass),
        ("GPUNode n1", ReportNode),
        ("GPUBinder binder", ReportBinder),
        ("ConfigMap cozy-system/cozystack-gpu-settings", WriteSettings),
    ],
    ids=str,
)
def test_an_object_in_quarantine_is_left_alone_and_the_others_are_written(skip, left_out):
    objects = {
        "inventory": [raws.an_inventory("n1")],
        "binders": [the_binder()],
        "config_maps": [],
    }
    kinds = {type(item) for item in status.changes_of(scene(**objects))}
    assert kinds == {ReportClass, ReportNode, ReportBinder, WriteSettings}
    kinds = {type(item) for item in status.changes_of(scene(**objects, skip={skip}))}
    assert kinds == {ReportClass, ReportNode, ReportBinder, WriteSettings} - {left_out}


def test_every_class_and_the_binder_say_that_holds_are_not_enforced():
    binder = {"metadata": {"name": "binder"}, "status": {"term": 1}}
    found = scene(webhooks=[], binders=[binder])
    assert condition(the_class(found), "HoldsNotEnforced") == ("True", "WebhooksMissing")
    report = only(item for item in status.changes_of(found) if isinstance(item, ReportBinder))
    assert condition(report, "HoldsNotEnforced") == ("True", "WebhooksMissing")
    assert condition(report, "Enabled") == ("True", "SwitchedOn")


def test_raw_launchers_that_the_scheduler_places_leave_holds_unenforced():
    loose = Config(raw_names=RawNames.ALLOWED, raw_placement=RawPlacement.SCHEDULER)
    told = condition(the_class(replace(scene(), config=loose)), "HoldsNotEnforced")
    assert told == ("True", "SchedulerPlaces")
