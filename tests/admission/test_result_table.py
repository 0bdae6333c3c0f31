"""The chart's table of result annotations."""

import re

from kubeshare_py.admission.result_table import template
from kubeshare_py.dialects import results
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from tests.controlplane.chart_tables import RESULTS
from tests.dialects.halves import HALVES


def test_the_charts_table_is_generated_from_the_dialects() -> None:
    assert RESULTS.read_text() == template(), "out of date: make manifests"


def test_it_has_the_keys_of_every_placement() -> None:
    listed = re.findall(r"'(sharedgpu/[a-z_]+)'", template())
    assert {*listed} == results.KEYS


def test_a_dialect_adds_its_own_keys_and_the_account_of_its_device_plugin() -> None:
    asks = (
        '"halves":{"labels":[],"annotations":[],"prefixes":["example.com/"],'
        '"resources":["example.com/half"],"contested":["nvidia.com/gpu"],"givesWay":false,'
        '"sharedBy":[],"answered":[],'
    )
    results_of_it = (
        '"resultKeys":["example.com/cards","example.com/state"],'
        '"resultPrefixes":["example.com/of-"],"resultLabels":["example.com/state"],'
        '"devicePluginKeys":{"example.com/ok":"kube-system/halves-plugin"}}}'
    )
    assert asks + results_of_it in template((SHAREDGPU, HALVES))
