from kubeshare_py.plugin import NodeState, PerNodeScore, Shape


class CheapNodes(PerNodeScore):
    """Prefers nodes with a low price label: `example.com/price: "30"`."""

    def __init__(self, label: str = "example.com/price") -> None:
        def points(shape: Shape, node: NodeState) -> int:
            price = node.label(label) or ""
            return 100 - int(price) if price.isascii() and price.isdigit() else 0

        super().__init__("CheapNodes", points)
