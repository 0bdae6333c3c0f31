"""The ledger's own rule as filters, for profiles whose plugins do not look at what is free.

The ledger refuses a placement that takes more than there is (`cluster/refusal`). These filters
answer the same for many rows at once, so that a pod is tried where there is room.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    FIXED_RESOURCES,
    PODS,
    PORTS,
    UNHEALTHY,
    IntArray,
)
from kubeshare_py.cluster.refusal import INSUFFICIENT_CARD, REFUSES, insufficient
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claims.card_names import fits_name
from kubeshare_py.framework.claims.claim_fit import asked_bytes, flags_for, shares_exclusion
from kubeshare_py.framework.number_table import ModelTable
from kubeshare_py.framework.points import CardPredicate, Depends, Ground, Guard, RowFilter
from kubeshare_py.framework.reasons import NO_USABLE_GPU, ReasonTable
from kubeshare_py.framework.scheduler_profile import Profile

NAME = "ledger"


class LedgerNodes:
    """A filter: the node has enough of each resource that the pod asks for."""

    name = NAME
    depends = Depends.ROW
    guards = Ground.NODE

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """One comparison for each resource that the shape asks for."""
        asked = list(_asked(shape))
        masks = [reasons.register(NAME, f"{REFUSES}{insufficient(name)}") for name, _ in asked]

        def ask(rows: Rows) -> IntArray:
            free, columns = rows.free, rows.resources
            found = np.zeros(len(free), np.int64)
            for (name, amount), mask in zip(asked, masks, strict=True):
                short = free[:, columns[name]] < amount if name in columns else True
                found |= np.where(short, mask, 0)
            return found

        return ask

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each resource of which too little is free."""
        for name, amount in _asked(shape):
            column = row.resources.get(name)
            free = row.free.item(0, column) if column is not None else 0
            if free < amount:
                reason = f"{REFUSES}{insufficient(name)}"
                yield Shortfall(reason=reason, resource=name, asked=amount, free=free, unit="count")


class LedgerCards:
    """A card filter: the card is healthy, and enough of its share and memory is free."""

    name = NAME
    guards = Ground.CARDS

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Cards without flags that have the share and memory; idle ones for exclusive claims."""
        claim = shape.claim
        if claim is None:
            return None
        mask = reasons.register(NAME, f"{REFUSES}{INSUFFICIENT_CARD}")
        unusable = reasons.register(NAME, f"{REFUSES}{NO_USABLE_GPU}", resolvable=False)
        milli_of, shares = ModelTable(claim.milli_on).of, shares_exclusion(claim)
        named = fits_name(claim)

        def fits(rows: Rows) -> NDArray[np.bool_]:
            found: NDArray[np.bool_] = flags_for(claim, rows) == 0
            if claim.exclusion:
                found &= shares(rows)
            if named is not None:
                found &= named(rows)
            milli = milli_of(rows)
            if claim.exclusive:  # all of an idle card, whatever its share
                found &= rows.tenants == 0
            else:
                found &= rows.free_milli >= milli
            found &= rows.free_bytes >= _bytes(claim, milli, rows)
            return found

        def lacks(rows: Rows) -> IntArray:
            gone = rows.flags & (ABSENT | UNHEALTHY | CORDONED) > 0
            return np.where(fits(rows), 0, np.where(gone, unusable, mask))

        return CardPredicate(fits, lacks)


def _asked(shape: Shape) -> Iterator[tuple[str, int]]:
    yield from ((name, amount) for name, amount in shape.resources if amount > 0)
    yield FIXED_RESOURCES[PODS], 1
    if shape.needs_port:
        yield FIXED_RESOURCES[PORTS], 1


def _bytes(claim: GpuClaim, milli: IntArray, rows: Rows) -> IntArray | int:
    """The memory charged on each card; for an exclusive claim at least what it asks for."""
    if claim.exclusive:
        return np.maximum(rows.capacity_bytes, claim.memory_bytes or 0)
    return asked_bytes(claim, milli, rows)


def guarded(profile: Profile, *, anew: bool = False) -> Profile:
    """The profile, with the ledger's rule where none of its plugins guards that ground.

    With `anew`, also where a plugin claims to, because it let a placement through.
    """
    own = (*profile.filters, *profile.card_filters) if anew else ()
    ours = {plugin.guards for plugin in own if isinstance(plugin, LedgerNodes | LedgerCards)}
    missing = {*Ground} - ours if anew else unguarded(profile)
    filters, card_filters = profile.filters, profile.card_filters
    if Ground.NODE in missing:
        filters = (*filters, LedgerNodes())
    if Ground.CARDS in missing:
        card_filters = (*card_filters, LedgerCards())
    return replace(profile, filters=filters, card_filters=card_filters) if missing else profile


def unguarded(profile: Profile) -> set[Ground]:
    """The grounds that no plugin of the profile guards."""
    plugins = (*profile.filters, *profile.card_filters)
    return {*Ground} - {plugin.guards for plugin in plugins if isinstance(plugin, Guard)}
