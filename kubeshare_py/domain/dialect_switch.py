"""How dialects are switched on, for messages about pods that ask in one that is off."""

from collections.abc import Iterable

#: All of `OF_ALL`, in every namespace, with the chart. The chart's policies say the same
#: (templates/_dialect-rules.tpl).
ALL_ON = "helm upgrade RELEASE CHART --reset-then-reuse-values --set dialects=all"
#: The dialects that `all` stands for.
OF_ALL = frozenset({"sharedgpu", "gpushare", "nano-gpu", "sharepod", "hami", "nvidia"})


def or_all(dialects: Iterable[str]) -> str:
    """`, or ALL_ON` if that switches on one of these dialects, else ""; the end of an advice."""
    return f", or {ALL_ON}" if OF_ALL.intersection(dialects) else ""
