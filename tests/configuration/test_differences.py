"""What a configuration changes of the defaults, line by line."""

from typing import Any

import pytest

from kubeshare_py.configuration.differences import differences
from kubeshare_py.configuration.scheduler import read


@pytest.mark.parametrize(
    ("document", "lines"),
    [
        (None, []),
        ({"profiles": [{}]}, []),
        (
            {"profiles": [{}, {"schedulerName": "b"}]},
            ['profiles[1].schedulerName: "b" (default: "kubeshare-scheduler")'],
        ),
        (
            {"profiles": [{"plugins": {"cardFilter": {"disabled": [{"name": "GpuModel"}]}}}]},
            ["profiles[0].plugins.cardFilter.enabled: - GpuModel"],
        ),
        (
            {"inventory": {"url": "http://" + "x" * 300}},
            [f'inventory.url: "http://{"x" * 72}… (default: "")'],
        ),
    ],
)
def test_only_what_differs_is_named(document: Any, lines: list[str]) -> None:
    assert [*differences(read(document))] == lines
