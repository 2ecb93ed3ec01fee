"""Launchers that their node refused, as Events on the VMI, once; that a claim notes it is told in `news`."""

from collections.abc import Iterator

from gpu.binder.news import News
from gpu.model.rejections import Rejections
from gpu.objects.kinds import VMIS


def seen(before: Rejections, after: Rejections) -> Iterator[News]:
    """Yield what is new of launchers since the look before."""
    for one in after.kept:
        if one.pod in after.judged and one.pod not in before.judged:
            yield News(
                regarding=VMIS,
                key=one.vm,
                uid=one.vmi,
                reason=one.why.value,
                note=one.words,
                warning=True,
            )
