"""Schema of GPUOffer."""

from typing import Final

from openapi import meta

SPEC: Final = f"{meta.PREFIX}catalog.v1alpha1.GPUOfferSpec"
STATUS: Final = f"{meta.PREFIX}catalog.v1alpha1.GPUOfferStatus"
KIND: Final = f"{meta.PREFIX}catalog.v1alpha1.GPUOffer"

SCHEMAS: Final[dict[str, meta.Schema]] = {
    SPEC: meta.obj(
        "GPUOfferSpec is what the hoster offers.",
        {
            "className": meta.text("Name of the class: spec.className of a GPUClaim."),
            "mode": meta.text(
                "How a card reaches the guest: passthrough or vgpu.", enum=["passthrough", "vgpu"]
            ),
            "displayName": meta.text("Title of the offer."),
            "description": meta.text("Words of the hoster."),
            "maxCount": meta.whole("Most units of one claim; absent when not limited.", smallest=1),
        },
        ("className", "mode"),
    ),
    STATUS: meta.obj(
        "GPUOfferStatus is what this tenant could have of it now.",
        {
            "free": meta.whole("Units free to order, for anybody."),
            "orderable": meta.whole("Most units one order of this tenant would get now."),
            "reason": meta.text("Why not more, as one word."),
            "message": meta.text("Why not more, in words."),
        },
        ("free", "orderable"),
    ),
    KIND: meta.kind(
        "GPUOffer is one GPU class as this tenant sees it: what it is, how many units are free, and "
        "the most one order could get now. It has the class's name.",
        {
            "spec": meta.ref(SPEC, "What the hoster offers."),
            "status": meta.ref(STATUS, "What this tenant could have of it now."),
        },
    ),
}
