"""Which GPU models a claim takes, compared on columns."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.model_table import ModelTable


def is_choosy(claim: GpuClaim) -> bool:
    """Whether the claim does not take every model."""
    return bool(claim.models) or claim.preferred is not None


def fits_model(claim: GpuClaim) -> Callable[[Rows], NDArray[np.bool_]] | None:
    """Which GPUs have a model that the claim takes, shape (rows, width); None if it takes all.

    Slots without a GPU do not.
    """
    if not is_choosy(claim):
        return None
    taken = ModelTable(lambda model: int(claim.takes(model)), empty=0)
    return lambda rows: taken.of(rows) == 1
