"""Prints the names of the plugins that other distributions on `sys.path` offer, or what is wrong.

Run as a process of its own, whose folder holds those distributions.
"""

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.process.plugin_entry_points import PluginEntryPointError, with_entry_points


def main() -> None:
    """Print one line."""
    try:
        print(*sorted(with_entry_points(IN_TREE).keys() - IN_TREE.keys()))
    except PluginEntryPointError as error:
        print(error)


if __name__ == "__main__":
    main()
