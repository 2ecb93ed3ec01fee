"""resourceQuotas of tenants, one row each, with what helps to render them; the twin and the chart are given all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.model import host_quotas

L40S = "nvidia.com/AD102GL_L40S"
MIXED = "Example.com/Odd_Name.v1"

FORMS: tuple[object, ...] = (
    *("0", "1", "4", "1000", "1500", "007", "+5", "-0", "5.", ".5", "4.0", "4.000", "0.5", "1.5"),
    *("-1", "-1.5", "+.5", "1k", "1.5k", "0.001k", "0.0001k", "1M", "1G", "1T", "1P", "1E", "9E"),
    *("10E", "0.1E", "0.0000000000000000001E", "4000m", "4001m", "0m", "m", "1000000u", "1u", "1n"),
    *("5000000000n", "1e3", "1E3", "1e+3", "1e-3", "4000e-3", "1.5e1", "1.55e1", "0e99", "1e18"),
    *("1e19", "1e30", "1e99999999", "1e-99999999", "0e-99999999", "1e03", "1e00", "1.5e0", "2e1"),
    *("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei", "7Ei", "8Ei", "9Ei", ".5Ki", "0.1Ki", "1.5Gi"),
    *(
        "0.0009765625Ki",
        "0.00048828125Ki",
        "0.5Ei",
        "1.25Mi",
        "1.1Ki",
        "2.3Gi",
        "99999999999999999999Ki",
        "007Ki",
    ),
    *("9223372036854775806", "9223372036854775807", "9223372036854775808", "99999999999999999999"),
    *("9007199254740993Ki", "8191.5Pi", "8192Pi", "8191Pi", "99999999999999999999.5"),
    *("9223372036854775807.5", "9223372036854775806.5", "1" * 40, "1" * 41, "0" * 40 + "4"),
    *(
        "",
        " ",
        " 4",
        "4 ",
        " 4k ",
        "4\t",
        "1 k",
        "abc",
        "9x",
        "4GB",
        "1K",
        "1ki",
        "1kk",
        "k",
        ".",
        "-",
    ),
    *(
        "+",
        "e3",
        "1e",
        "1e1.5",
        "1e3k",
        "0x4",
        "1_000",
        "1,5",
        "inf",
        "nan",
        "\u0663",
        "<nil>",
        "true",
    ),
    *(0, 1, 4, 1000, 1_000_000, 2_500_000, 123_456_789, 2**53, -1, 10**15, 4.0, 1.5, 0.25, -0.5),
    *(None, True, False, [], ["4"], {}, {"a": 1}),
)
"""What may stand as a value: text, numbers, and what is neither."""

QUANTITIES = tuple(amount for amount, *_ in host_quotas.AMOUNTS)
"""What the host's schema lets a value be."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a tenant declares, the names that are GPUs, and the host's `_cluster` values."""

    quotas: Mapping[str, object]
    gpus: tuple[object, ...] = ()
    cluster: Mapping[str, str] = field(default_factory=dict)


def _ratios(cpu: str, memory: str, storage: str) -> dict[str, str]:
    return {
        "cpu-allocation-ratio": cpu,
        "memory-allocation-ratio": memory,
        "ephemeral-storage-allocation-ratio": storage,
    }


ROWS: Mapping[str, Row] = {
    **{f"GPU {form!r}": Row({L40S: form}, (L40S,)) for form in FORMS},
    **{
        f"{key} {amount!r}": Row({key: amount})
        for key in ("cpu", "memory", "ephemeral-storage", "storage", "pods", "example.com/fpga")
        for amount in QUANTITIES
    },
    **{
        f"{key} {amount!r} by thirds": Row({key: amount}, cluster=_ratios("3", "1.5", "7"))
        for key in ("cpu", "memory", "ephemeral-storage")
        for amount in ("1", "10", "100m", "1k", "20Gi", "1.5Gi", 7)
    },
    **{f"{key} where a GPU is known": Row({key: "4"}, (L40S,)) for key in host_quotas.KEYS},
    "nothing": Row({}),
    "budgets alone": Row({"gpu.cozystack.io/gold": "4", "gpu.cozystack.io/total": 8}),
    "a budget that is no amount": Row({"gpu.cozystack.io/gold": "x"}),
    "a budget named as a GPU": Row({"gpu.cozystack.io/gold": "4"}, ("gpu.cozystack.io/gold",)),
    "a GPU nobody named": Row({L40S: "4"}),
    "a GPU by a name with upper case": Row({MIXED: "4", MIXED.lower(): "5"}, (MIXED,)),
    "a GPU among what is no name": Row({L40S: "4", "4": "5"}, (L40S, 4, None, "", "/")),
    "a GPU named twice": Row({L40S: "4"}, (L40S, L40S)),
    "names of the host that somebody calls GPUs": Row(
        {"memory": "1Gi", "cpu": "2", "storage": "3Gi", "pods": "4"},
        ("memory", "cpu", "storage", "pods", ""),
    ),
    "all at once": Row(
        {
            "cpu": "10",
            "memory": "20Gi",
            "ephemeral-storage": "80Gi",
            "storage": "100Gi",
            "pods": "50",
            L40S: "4",
            MIXED: 2,
            "gpu.cozystack.io/gold": "4",
            "gpu.cozystack.io/total": 6,
            "example.com/fpga": "1",
        },
        (L40S, MIXED),
        _ratios("4", "1", "40"),
    ),
}
