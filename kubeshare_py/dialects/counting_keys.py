"""The keys of a pod that count for what it asks for and holds: few of those that it has."""

from collections.abc import Callable, Sequence

from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.pod_keys import (
    OLD_POD_GROUP_LABEL,
    POD_GROUP_LABEL,
    WITHIN,
    is_ours,
)
from kubeshare_py.dialects.results import RESERVATION

#: The most keys that are remembered, and the longest (characters); the API server takes 317.
MAX_KEYS, MAX_LENGTH = 1024, 320


class Counting(dict[str, bool]):
    """Whether a key counts, by the key. A key that was asked about is answered by a look-up."""

    def __init__(self, counts: Callable[[str], bool]) -> None:
        self._counts = counts

    def __missing__(self, key: str) -> bool:
        found = self._counts(key)
        if len(self) >= MAX_KEYS:
            self.clear()
        if len(key) <= MAX_LENGTH:
            self[key] = found
        return found

    def of(self, found: dict[str, str]) -> dict[str, str]:
        """Those that count; one that means nothing in place of all others, if none does.

        Whether a pod has any annotations says whether a predecessor may have bound it.
        """
        return {key: text for key, text in found.items() if self[key]} or {"": ""}


class CountingKeys:
    """The keys that count in some dialects.

    `annotations` are those of any pod, `asking` those of a pod whose `sharedgpu/allocation` is
    read: what else is said of its cards does not count beside that.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        nothing: frozenset[str] = frozenset()
        labels = nothing.union(*(one.owns.labels for one in dialects))
        owned = nothing.union(*(one.owns.annotations for one in dialects))
        prefixes = tuple(prefix for one in dialects for prefix in one.owns.prefixes)

        def is_asking(key: str) -> bool:
            return key in owned or any(
                key.startswith(one.owns.prefixes) and not one.result_keys.has(key)
                for one in dialects
            )

        groups = (POD_GROUP_LABEL, OLD_POD_GROUP_LABEL)
        self.labels = Counting(
            lambda key: is_ours(key) or key in groups or key in labels or key.startswith(prefixes)
        )
        self.annotations = Counting(
            lambda key: (
                is_ours(key)
                or key in owned
                or key.startswith(prefixes)
                or any(one.result_keys.are_written(key) for one in dialects)
            )
        )
        self.asking = Counting(lambda key: key in (WITHIN, RESERVATION) or is_asking(key))
