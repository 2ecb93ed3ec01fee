"""Accept: which view is chosen, and when nothing is."""

import pytest

from apiserver.wire import negotiate
from apiserver.wire.negotiate import Form, Subject, View
from apiserver.wire.status import NotAcceptable

JSON, YAML = "application/json", "application/yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OLD_TABLE = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("accept", "subject", "view"),
    [
        pytest.param(None, Subject.LIST, View(JSON), id="none"),
        pytest.param("*/*", Subject.LIST, View(JSON), id="any"),
        pytest.param("application/*", Subject.LIST, View(JSON), id="any-application"),
        pytest.param(f"{JSON};charset=utf-8", Subject.LIST, View(JSON), id="charset"),
        pytest.param("text/html,*/*;q=0.8", Subject.LIST, View(JSON), id="browser"),
        pytest.param(YAML, Subject.OBJECT, View(YAML), id="yaml"),
        pytest.param(f"{YAML};q=0.5,{JSON};q=0.9", Subject.LIST, View(JSON), id="quality"),
        pytest.param(f"{JSON};q=0.5, {YAML}", Subject.LIST, View(YAML), id="quality-default"),
        pytest.param(f"*/*,{YAML}", Subject.LIST, View(YAML), id="specific-first"),
        pytest.param(f"{JSON},{YAML}", Subject.LIST, View(JSON), id="as-written"),
        pytest.param(f"{PROTOBUF},{JSON}", Subject.LIST, View(JSON), id="protobuf-first"),
        pytest.param(TABLE, Subject.LIST, View(JSON, Form.TABLE, "v1"), id="table"),
        pytest.param(
            f"{TABLE},{OLD_TABLE},{JSON}",
            Subject.LIST,
            View(JSON, Form.TABLE, "v1"),
            id="kubectl",
        ),
        pytest.param(
            OLD_TABLE, Subject.WATCH, View(JSON, Form.TABLE, "v1beta1"), id="table-v1beta1"
        ),
        pytest.param(
            TABLE.replace("v1", "v9") + f",{JSON}", Subject.LIST, View(JSON), id="falls-back"
        ),
        pytest.param(PARTIAL_LIST, Subject.LIST, View(JSON, Form.PARTIAL_LIST), id="partial-list"),
        pytest.param(PARTIAL, Subject.WATCH, View(JSON, Form.PARTIAL), id="partial-watch"),
    ],
)
def test_the_first_view_that_can_be_made_is_chosen(accept, subject, view):
    assert negotiate.choose(accept, subject) == view


@pytest.mark.parametrize(
    ("accept", "subject"),
    [
        pytest.param("text/html", Subject.LIST, id="html"),
        pytest.param(PROTOBUF, Subject.LIST, id="protobuf-alone"),
        pytest.param(f"{JSON};q=0", Subject.LIST, id="refused-by-quality"),
        pytest.param(TABLE.replace("v1", "v9"), Subject.LIST, id="unknown-version"),
        pytest.param(TABLE.replace("meta.k8s.io", "no.such"), Subject.LIST, id="unknown-group"),
        pytest.param(TABLE.replace("Table", "Nonsense"), Subject.LIST, id="unknown-form"),
        pytest.param(PARTIAL, Subject.LIST, id="object-form-of-a-list"),
        pytest.param(PARTIAL_LIST, Subject.OBJECT, id="list-form-of-an-object"),
        pytest.param(YAML, Subject.WATCH, id="yaml-stream"),
    ],
)
def test_what_cannot_be_made_is_refused_naming_what_can(accept, subject):
    with pytest.raises(NotAcceptable, match="application/json"):
        negotiate.choose(accept, subject)


V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        pytest.param(V2, "v2", id="alone"),
        pytest.param(f"{V2},{JSON}", "v2", id="kubectl"),
        pytest.param(V2.replace("v=v2", "v=v2beta1"), "v2beta1", id="old"),
        pytest.param(f"{V2.replace('v=v2', 'v=v9')},{JSON}", "", id="unknown-then-plain"),
        pytest.param(JSON, "", id="plain"),
        pytest.param(None, "", id="none"),
    ],
)
def test_aggregated_discovery_is_given_to_those_who_ask(accept, version):
    assert negotiate.wants_aggregated(accept) == version


def test_an_unknown_version_of_aggregated_discovery_alone_is_refused():
    with pytest.raises(NotAcceptable):
        negotiate.wants_aggregated(V2.replace("v=v2", "v=v9"))


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("*, gzip;q=0", False),
        ("gzip;q=0", False),
        ("*;q=0, gzip", True),
        ("x-gzippy", False),
        ("identity", False),
        ("", False),
    ],
)
def test_an_answer_is_compressed_for_those_who_take_it(accepted, takes):
    assert negotiate.takes_gzip(accepted) is takes
