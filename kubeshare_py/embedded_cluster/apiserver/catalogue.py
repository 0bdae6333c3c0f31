"""All kinds that are served: the fixed ones, and those of definitions in the store."""

from collections.abc import Iterator, Sequence

from kubeshare_py.embedded_cluster.apiserver.discovery import with_reviews
from kubeshare_py.embedded_cluster.crd.crd_kind import DEFINITIONS
from kubeshare_py.embedded_cluster.crd.custom_kinds import defined_kinds
from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.store import ApiStore, StoredObject


class Catalogue:
    """Look-ups of kinds. Kinds of definitions are read anew whenever these change.

    Iterating over it gives every kind that is stored, served or not.
    """

    def __init__(self, fixed: Sequence[Resource], store: ApiStore) -> None:
        self._store = store
        self._fixed = tuple(fixed)
        self._served_fixed = with_reviews(fixed)
        self._rows = {(row.api_version, row.plural): row for row in self._served_fixed}
        self._groups = {row.group for row in self._served_fixed}
        self._entries: tuple[StoredObject, ...] = ()
        self._custom: tuple[Resource, ...] = ()

    def __iter__(self) -> Iterator[Resource]:
        yield from self._fixed
        yield from self._defined()

    def served(self) -> tuple[Resource, ...]:
        """The kinds that clients can discover."""
        return self._served_fixed + tuple(row for row in self._defined() if row.verbs)

    def find(self, api_version: str, plural: str) -> Resource | None:
        """The kind served under a URL."""
        found = self._rows.get((api_version, plural))
        if found is not None:
            return found
        wanted = (api_version, plural)
        rows = (row for row in self._defined() if row.verbs)
        return next((row for row in rows if (row.api_version, row.plural) == wanted), None)

    def is_fixed(self, group: str) -> bool:
        """Whether a group is one of the fixed ones."""
        return group in self._groups

    def serves(self, group: str, version: str = "") -> bool:
        """Whether there is any kind of that group, in that version where definitions make it."""
        return self.is_fixed(group) or any(
            row.group == group and version in ("", row.version)
            for row in self._defined()
            if row.verbs
        )

    def _defined(self) -> tuple[Resource, ...]:
        entries = tuple(self._store.entries(DEFINITIONS.store_bucket))
        if [*map(id, entries)] != [*map(id, self._entries)]:
            self._entries = entries
            self._custom = tuple(row for entry in entries for row in defined_kinds(entry.object))
        return self._custom
