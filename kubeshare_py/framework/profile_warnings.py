"""Warns about what a profile does not check because it lacks a plugin of the default profile."""

from collections.abc import Iterator, Mapping, Sequence

from kubeshare_py.framework.boundary import name_of
from kubeshare_py.framework.ledger_fit import unguarded
from kubeshare_py.framework.points import Ground
from kubeshare_py.framework.scheduler_profile import Profile

_GROUNDS = {
    Ground.NODE: "no filter looks at what is free on nodes (NodeResourcesFit does)",
    Ground.CARDS: "no cardFilter looks at what is free on GPUs (GpuFit does)",
}
_CHECKED_ANYHOW = "the ledger refuses what does not fit, with less to say about why"

#: What is ignored without the plugin.
_IGNORED: Mapping[str, str] = {
    "NodeUnschedulable": "pods go to cordoned nodes",
    "TaintToleration": "pods go to nodes with taints that they do not tolerate",
    "NodeAffinity": "nodeSelector and node affinity are ignored",
    "GpuModel": "the GPU models that pods ask for are ignored",
    "OneModel": "pods that ask for GPUs of one model may get several",
    "NumaBinding": "pods that ask for GPUs near one NUMA node may get others",
}


def warnings(profiles: Sequence[Profile]) -> Iterator[str]:
    """One line for each warning, with the profile's place in the configuration."""
    for index, profile in enumerate(profiles):
        where = f"profiles[{index}] ({profile.scheduler_name})"
        missing = unguarded(profile)
        for ground, text in _GROUNDS.items():
            if ground in missing:
                yield f"{where}: {text}: {_CHECKED_ANYHOW}"
        names = {name_of(plugin) for plugin in (*profile.filters, *profile.card_filters)}
        for name, effect in _IGNORED.items():
            if name not in names:
                yield f"{where}: without {name}, or a plugin in its place, {effect}"
