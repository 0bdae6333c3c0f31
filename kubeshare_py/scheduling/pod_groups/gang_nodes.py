"""Orders nodes that hold a whole gang: first those with well joined cards, then the fullest.

As for one pod with as many cards: both count with the weights of the profile.
"""

import numpy as np

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import Boundary
from kubeshare_py.framework.plugin_calls import gang_scores
from kubeshare_py.framework.points import GangScore
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.scores import MAX_SCORE
from kubeshare_py.scheduling.pod_groups.gang_cards import Some


def cards_together(members: list[Some], need: int) -> int:
    """How many idle cards so many of these members take on one node; 0 if unknown.

    Shares of which two fit on a card may go to cards in use.
    """
    cards = 0
    for shape, count in members:
        each = _cards_of(shape)
        if not each:
            return 0
        cards += each * (need if len(members) == 1 else count)
    several = len(members) > 1 and sum(count for _, count in members) > need
    return 0 if several else cards


def best_first(
    boundary: Boundary,
    profile: Profile,
    columns: Columns,
    rows: IntArray,
    left: IntArray,
    cards: int,
) -> IntArray:
    """These rows, (k,) int64, for a gang that takes so many idle cards on one of them, best first.

    `left`, (k,) int64, is how many more pods each would then take. Raises PluginFailed.
    """
    points = np.zeros(len(rows), np.int64)
    asked = SomeRows(columns, rows)
    for plugin, weight in profile.scores:
        if isinstance(plugin, GangScore) and 1 < cards <= columns.width:
            points += weight * gang_scores(boundary, plugin, cards, asked)
    points -= MAX_SCORE * left // max(int(left.max(initial=0)), 1)
    order: IntArray = rows[np.lexsort((rows, left, -points))]
    return order


def _cards_of(shape: Shape) -> int:
    """How many idle cards a pod takes; 0 if unknown."""
    if any(not claim.exclusive and 2 * claim.milli <= WHOLE_MILLI for claim in shape.claims):
        return 0
    return sum(claim.count for claim in shape.claims)
