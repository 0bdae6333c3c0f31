"""Figures of the reconciler, for monitoring: what it knows, counted by others."""

from collections.abc import Iterator

from kubeshare_py.sharepods.reconciler import Reconciler
from kubeshare_py.sharepods.share_pod import ConditionType, SharePod


def phases(reconciler: Reconciler) -> tuple[str, ...]:
    """The phase of each SharePod's pod as it shows it, "" for none."""
    return tuple(one.status.mirror.phase for one in _share_pods(reconciler))


def failing(reconciler: Reconciler) -> tuple[str, ...]:
    """The reason of each SharePod whose condition Synced is False."""
    synced = (one.status.condition(ConditionType.SYNCED) for one in _share_pods(reconciler))
    return tuple(one.reason for one in synced if one is not None and not one.is_true)


def under_way(reconciler: Reconciler) -> int:
    """How many requests have no answer yet."""
    return sum(one.request is not None for one in reconciler.records())


def _share_pods(reconciler: Reconciler) -> Iterator[SharePod]:
    return (one.share_pod for one in reconciler.records() if one.share_pod is not None)
