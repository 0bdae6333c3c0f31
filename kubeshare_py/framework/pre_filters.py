"""What PreFilter plugins prepare: one value per plugin and shape, handed to its other methods."""

from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import Boundary

PRE_FILTER = "PreFilter"


class PreFilters:
    """The values of one profile's plugins for one shape, each made when it is first needed."""

    __slots__ = ("_boundary", "_shape", "_values")

    def __init__(self, boundary: Boundary, shape: Shape) -> None:
        self._boundary, self._shape = boundary, shape
        self._values: dict[int, tuple[object]] = {}

    def arguments(self, plugin: object) -> tuple[object, ...]:
        """The plugin's value as the last argument of its methods, or none. Raises PluginFailed."""
        # Not isinstance, which takes longer than the rest of a small plugin's preparation.
        pre_filter = getattr(plugin, "pre_filter", None)
        if pre_filter is None:
            return ()
        found = self._values.get(id(plugin))
        if found is None:
            value = self._boundary.call(plugin, PRE_FILTER, None, pre_filter, self._shape)
            found = self._values[id(plugin)] = (value,)
        return found
