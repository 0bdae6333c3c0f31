"""Events of watches; objects that cannot be read are logged."""

from collections.abc import Iterable, Iterator

from kubeshare_py.domain.events import Event
from kubeshare_py.edges.process import decision_log
from kubeshare_py.manifests.events import BadAllocation
from kubeshare_py.manifests.watch import Problem


def logged(translated: Iterable[Event | Problem | BadAllocation]) -> Iterator[Event]:
    """The events, in order; logs each problem on the way."""
    for one in translated:
        if isinstance(one, Problem):
            where = f"{one.namespace}/{one.name}"
            decision_log.warn("unreadable", object=where, uid=one.uid, message=one.text)
        elif isinstance(one, BadAllocation):
            decision_log.warn("allocation", pod=str(one.key), message=one.text)
        else:
            yield one
