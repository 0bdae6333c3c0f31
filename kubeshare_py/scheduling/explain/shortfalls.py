"""What a node lacks to take a waiting pod, in numbers, as the profile's plugins say it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kubeshare_py.cluster.columns import Columns
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.pod import Shape, by_claim
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.claims.claim_fit import fits_claim
from kubeshare_py.framework.claims.joint_needs import JointAmount, joint_needs
from kubeshare_py.framework.claims.prepared_claims import NOT_TOGETHER
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.plugin_calls import explain
from kubeshare_py.framework.points import CardFilter, Explain
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.explain.container_views import containers_by_claim
from kubeshare_py.scheduling.queue.pod_records import Record

_UNITS = {
    JointAmount.CARDS: ("gpus", "count"),
    JointAmount.SHARE: ("gpu", "milli"),
    JointAmount.MEMORY: ("gpu memory", "bytes"),
}


def shortfalls_on(
    reading: ClusterReading, record: Record, row: int, reasons: Sequence[str]
) -> list[Shortfall]:
    """What is lacking; for a card that could never hold a claim, only the reason for that.

    Card filters are asked about each claim alone. For a plugin that fails, that it failed.
    `reasons` are the row's: what claims lack together is added if they say so.
    """
    profile = reading.evaluators[record.pod.scheduler_name].profile
    found: list[Shortfall] = []
    failures: list[Shortfall] = []
    for plugin, shape, containers in _questions(profile, record):
        try:
            lacks = explain(reading.boundary, plugin, shape, reading.ledger.columns, row)
            found += [replace(one, containers=containers) for one in lacks]
        except PluginFailed as failure:
            failures.append(Shortfall(reason=str(failure)))
    failures = [*dict.fromkeys(failures)]
    hopeless = {(one.containers, one.subject) for one in found if one.asked is None}
    if any(not subject for _, subject in hopeless):
        return [one for one in found if one.asked is None] + failures
    kept = [
        one
        for one in found
        if one.asked is None or not hopeless & {(one.containers, one.subject), ((), one.subject)}
    ]
    together = next((text for text in reasons if text.startswith(NOT_TOGETHER)), "")
    joint = _together(record.shape, reading.ledger.columns, row, together) if together else ()
    return [*kept, *joint, *failures]


def _together(shape: Shape, columns: Columns, row: int, reason: str) -> Iterator[Shortfall]:
    """How much less is free than all claims take; nothing if it is only badly divided."""
    rows = SomeRows(columns, np.array([row]))
    fitting = [fits_claim(claim)(rows) for claim in shape.claims]
    needs = joint_needs(shape, rows, fitting, free=True)
    lacking = [need for need in needs if need.needed.item() > need.there.item()]
    if len(lacking) > 1 and not any(claim.asks_memory for claim in shape.claims):
        # The memory goes with the share, which is lacking.
        lacking = [need for need in lacking if need.amount is not JointAmount.MEMORY]
    for need in lacking:
        resource, unit = _UNITS[need.amount]
        asked, free = need.needed.item(), need.there.item()
        yield Shortfall(reason=reason, resource=resource, asked=asked, free=free, unit=unit)


def _questions(
    profile: Profile, record: Record
) -> Iterator[tuple[Explain, Shape, tuple[str, ...]]]:
    """Each plugin that explains, what it is asked about, and the containers with this claim."""
    shape = record.shape
    by_container = [*zip(by_claim(shape), containers_by_claim(record) or [()], strict=True)]
    for plugin in (*profile.filters, *profile.card_filters):
        if isinstance(plugin, Explain):
            asked = by_container if isinstance(plugin, CardFilter) else [(shape, ())]
            yield from ((plugin, one, containers) for one, containers in asked)
