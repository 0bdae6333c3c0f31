"""How pytest-xdist spreads tests that share a control plane: a folder's tests on one worker.

Each worker starts a control plane of its own, and a folder may set one up once for all its tests.
Folders are begun in the order of the command line.
"""

from importlib import import_module
from typing import Any

import pytest

from tests.budgets import folder_of


def by_folder(config: pytest.Config, log: object) -> Any:
    """Make the scheduler. Plain pytest works without pytest-xdist, so it is imported here."""
    scheduling = import_module("xdist.scheduler").LoadScopeScheduling
    # What its documentation says to override.
    return type("ByFolder", (scheduling,), {"_split_scope": staticmethod(folder_of)})(config, log)
