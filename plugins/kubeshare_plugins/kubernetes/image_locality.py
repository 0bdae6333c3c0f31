"""Score: nodes that have the pod's images, the more of them and the larger the better."""

from collections import Counter

import numpy as np

from kubeshare_py.plugin import (
    MAX_SCORE,
    BestCards,
    Depends,
    IntArray,
    Rows,
    RowScore,
    Shape,
)

_MIB = 1 << 20
#: Sums below the one are worth nothing, and those above the other, times the containers, no more.
_LEAST, _MOST_OF_CONTAINER = 23 * _MIB, 1000 * _MIB


def as_it_is(raw: IntArray) -> IntArray:
    """The same, (k,): points are absolute, though they depend on all nodes."""
    return raw


class ImageLocality:
    """0 to 100 points by the bytes of the pod's images that the node has.

    An image counts in proportion to the nodes that have it, so that pods do not all go to the one
    node that pulled it first (kube-scheduler's pkg/scheduler/framework/plugins/imagelocality).
    """

    name = "ImageLocality"
    depends = Depends.CLUSTER
    normaliser = staticmethod(as_it_is)
    #: Shapes have the images of their pods only in profiles with such a plugin.
    reads_images = True

    def score(self, shape: Shape) -> RowScore | None:
        """No question for pods without images."""
        images = shape.images
        if images is None or not images.names:
            return None
        most = _MOST_OF_CONTAINER * images.containers
        counts = Counter(images.names)

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            present = rows.everywhere.present
            nodes = int(present.sum())
            total = np.zeros(len(present), np.int64)
            for name, count in counts.items():
                having = rows.nodes_with_image(name)
                if having:
                    size = next(iter(having.values()))
                    total[[*having]] += count * int(size * (len(having) / nodes))
            found = np.clip(total[rows.index], _LEAST, most)
            points: IntArray = MAX_SCORE * (found - _LEAST) // (most - _LEAST)
            return points

        return ask
