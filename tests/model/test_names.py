import pytest

from gpu.model import names
from tests.builders import H100, L40, a_class, a_kubevirt


@pytest.mark.parametrize(
    ("kubevirts", "table"),
    [
        pytest.param([], None, id="no KubeVirt: anything"),
        pytest.param([a_kubevirt(table=False)], None, id="no table: anything"),
        pytest.param([a_kubevirt()], frozenset(), id="an empty table: nothing"),
        pytest.param([a_kubevirt(H100, L40)], frozenset({H100, L40}), id="a table"),
        pytest.param(
            [a_kubevirt(table=False), a_kubevirt(L40)], frozenset({L40}), id="two, one with a table"
        ),
    ],
)
def test_permitted_names_are_those_of_kubevirts_table(kubevirts, table):
    assert names.permitted(kubevirts) == table


def test_without_a_table_everything_is_permitted():
    assert names.is_permitted(H100, None)


def test_a_name_outside_the_table_is_not_permitted():
    assert not names.is_permitted(H100, frozenset({L40}))


def test_effective_names_are_those_of_classes_and_of_the_table_once_each_sorted():
    classes = [a_class("b", resource=H100), a_class("a", resource=H100, retired=True)]
    assert names.effective(classes, [a_kubevirt(L40, "intel.com/gpu")]) == (
        "intel.com/gpu",
        L40,
        H100,
    )


def test_a_network_card_that_kubevirt_permits_is_no_gpu():
    table = [a_kubevirt(L40, "mellanox.com/cx6"), a_kubevirt("mellanox.com/cx7", vendor="15B3")]
    assert names.gpus(table) == {L40, "mellanox.com/cx6"}, "the first says that NVIDIA made it"
    assert names.effective([a_class("a", resource=H100)], table) == (
        "mellanox.com/cx6",
        L40,
        H100,
    )


def test_it_is_one_once_a_class_names_it():
    nic = "mellanox.com/cx7"
    table = [a_kubevirt(nic, vendor="15B3")]
    assert names.effective([a_class("a", resource=nic)], table) == (nic,)
    assert names.is_permitted(nic, names.permitted(table))
