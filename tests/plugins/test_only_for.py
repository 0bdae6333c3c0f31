"""Plugins that declare about which shapes they are asked have nothing to say about others."""

import numpy as np
import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.points import READY, PendingPlacement
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.scheduler_profile import is_about
from tests.making import a_claim, a_pod, a_shape

PLUGINS = [make() for make in IN_TREE.values()]
DECLARING = [one for one in PLUGINS if getattr(one, "only_for", ())]
HALF, TWO_CARDS = a_claim(500), a_claim(1000, exclusive=True, count=2)
SHAPES = {
    "no card": a_shape(),
    "half a card": a_shape(HALF),
    "two cards": a_shape(TWO_CARDS),
    "two claims": a_shape(HALF, a_claim(250)),
    "all else": replace(
        a_shape(HALF), node_selector=(("zone", "a"),), guarantee=True, needs_port=True
    ),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("plugin", DECLARING, ids=lambda one: str(one.name))
def test_a_plugin_has_nothing_to_say_about_other_shapes(plugin: object, shape: Shape) -> None:
    if is_about(shape, getattr(plugin, "only_for", ())):
        return
    points = ("filter", "score", *(("card_filter", "card_score") if shape.claim else ()))
    for point in points:
        ask = getattr(plugin, point, None)
        if ask is not None:
            reasons = ReasonTable()
            arguments = (shape, reasons) if point.endswith("filter") else (shape,)
            assert ask(*arguments) is None
            assert not reasons.registered
    if hasattr(plugin, "pre_bind"):
        row = SomeRows(Ledger().columns, np.zeros(0, np.int64))
        assert plugin.pre_bind(a_pod("p", shape), row, PendingPlacement()) == READY


def test_fields_of_shapes_and_of_claims_are_told_apart() -> None:
    named = a_shape(replace(HALF, uuids=(GpuUuid("GPU-1"),)))
    assert is_about(named, ("claim.uuids",))
    assert not is_about(named, ("claim.tags", "volumes", "isolation"))
    # No terms at all are not the same as terms of which none can hold.
    assert is_about(replace(named, terms=()), ("terms",))
    with pytest.raises(KeyError):
        is_about(named, ("uuids",))
