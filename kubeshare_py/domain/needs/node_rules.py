"""Node labels that say which nodes a dialect may use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A node label by which administrators give nodes to pods of a dialect.

    A node whose label has none of `values` takes none of these pods. A node without the label takes
    them unless the rule is `required`. Invariant: there is a value, else ValueError.
    """

    label: str
    values: tuple[str, ...]
    required: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"{self.label}: no value of it gives a node to the dialect")
