"""Schema of QuotaGate."""

from typing import Final

from openapi import meta

SPEC: Final = f"{meta.PREFIX}catalog.v1alpha1.QuotaGateSpec"
STATUS: Final = f"{meta.PREFIX}catalog.v1alpha1.QuotaGateStatus"
KIND: Final = f"{meta.PREFIX}catalog.v1alpha1.QuotaGate"

SCHEMAS: Final[dict[str, meta.Schema]] = {
    SPEC: meta.obj(
        "QuotaGateSpec is what was declared.",
        {
            "key": meta.text("The key, as resourceQuotas of the tenant has it."),
            "hard": meta.whole("Units this tenant itself declares; absent when it declares none."),
        },
        ("key",),
    ),
    STATUS: meta.obj(
        "QuotaGateStatus is what is left.",
        {
            "used": meta.whole(
                "Units that count against the budget: usedByClaims, usedByPods and usedBelow together."
            ),
            "usedByClaims": meta.whole("Units of this tenant's own claims, in every phase."),
            "usedByPods": meta.whole(
                "Units of this tenant's own pods that name a resource directly, beyond what claims "
                "of their VM account for."
            ),
            "usedBelow": meta.whole(
                "Units of all tenants below this one together: of one that declares the key the "
                "larger of what it declares and uses, of any other what it uses."
            ),
            "remaining": meta.whole(
                "Units that this tenant's own budget and those of all above it that declare the key "
                "leave to it; absent when none declares it. 0 while the gate is Closed, whatever budgets "
                "leave: the gate is Open exactly when this is absent or more than 0."
            ),
            "boundedBy": meta.text(
                "The tenant whose declaration leaves least; this one or one above it."
            ),
            "gate": meta.text(
                "Open, Exhausted (nothing left) or Closed.", enum=["Open", "Exhausted", "Closed"]
            ),
            "reason": meta.text("Why the gate stands as it does, as one word."),
            "message": meta.text("Why the gate stands as it does, in words."),
        },
        ("used", "gate"),
    ),
    KIND: meta.kind(
        "QuotaGate is one GPU quota key of this tenant: what is declared, used and left, and whether "
        "an order under it could pass.",
        {
            "spec": meta.ref(SPEC, "What was declared."),
            "status": meta.ref(STATUS, "What is left."),
        },
    ),
}
