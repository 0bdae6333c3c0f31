"""Rows as ranks and scores see them for a claim that takes cards with flags.

A card with the pod's own exclusion tag, or another vendor's card, has flags that keep most claims
off it, and so no room in the tables. The claim's own questions read the room that the card has.
"""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.derived import room
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claims.claim_fit import flags_for

P = ParamSpec("P")
T = TypeVar("T")
_ROOM = ("headroom", "share_headroom", "idle")


def asked_for(
    claim: GpuClaim | None, question: Callable[Concatenate[Rows, P], T]
) -> Callable[Concatenate[Rows, P], T]:
    """The question, put to rows as the claim sees them.

    It stays the same function unless the claim takes cards with flags.
    """
    if claim is None or not (claim.exclusion or claim.vendor):
        return question

    def ask(rows: Rows, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return question(_ClaimRows(rows, claim), *args, **kwargs)

    return ask


class _ClaimRows(Rows):
    """The rows `base` without the flags that do not keep `claim` off a card.

    Only cards that fit the claim have meaningful values: a card with a foreign exclusion tag looks
    as if the claim could use it.
    """

    __slots__ = ("_base", "_claim")
    _base: Rows
    _claim: GpuClaim

    def __init__(self, base: Rows, claim: GpuClaim) -> None:
        super().__init__(base._columns, None)
        _put_base(self, base)
        _put_claim(self, claim)

    @property
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""
        return self._base.index

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return self._base._pick(column)

    def _take(self, name: str) -> NDArray[Any]:
        base = self._base
        if name == "flags":
            return flags_for(self._claim, base)
        if name not in _ROOM:
            values: NDArray[Any] = getattr(base, name)
            return values.view()
        with_share = np.maximum(base.share_bytes, 1)
        found = room(
            self.flags, base.tenants, base.free_milli, base.free_bytes, with_share, np.minimum
        )
        return found[_ROOM.index(name)]


_put_base = vars(_ClaimRows)["_base"].__set__
_put_claim = vars(_ClaimRows)["_claim"].__set__
