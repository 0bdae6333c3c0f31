"""A test kit for plugins. It needs no test framework; `kubeshare_py.plugin` has its version.

A `SmallCluster` is a ledger with the plugins to be tested, and values are made in one short call.
Each `expect_…` raises AssertionError with what was found instead.
"""

from kubeshare_py.testing.expectations import (
    expect_best,
    expect_contract,
    expect_failure,
    expect_fits,
    expect_reason,
    expect_score,
)
from kubeshare_py.testing.small_cluster import SmallCluster
from kubeshare_py.testing.values import (
    GIB,
    MODEL,
    a_claim,
    a_gpu,
    a_node,
    a_shape,
    some_gpus,
    whole,
)

__all__ = [
    "GIB",
    "MODEL",
    "SmallCluster",
    "a_claim",
    "a_gpu",
    "a_node",
    "a_shape",
    "expect_best",
    "expect_contract",
    "expect_failure",
    "expect_fits",
    "expect_reason",
    "expect_score",
    "some_gpus",
    "whole",
]
