"""What slices, claims and classes have in common."""

import msgspec
import pytest

from kubeshare_py.domain.devices.device import DeviceNodes
from kubeshare_py.domain.devices.resource_claim import DeviceConfiguration
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.manifests.devices.device_fields import (
    ConfigurationFields,
    NodeSelection,
    configuration,
    device_nodes,
    is_set,
    node_terms,
)

_SELECTOR = b'{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]},{}]}'


def test_reads_the_terms_of_a_node_selector() -> None:
    fields = msgspec.json.decode(_SELECTOR, type=NodeSelection)

    assert node_terms(fields) == (NodeTerm((Requirement("a", "Exists"),)), NodeTerm())
    assert node_terms(None) is None
    assert device_nodes("n1", False, None) == DeviceNodes(NodeName("n1"))


def test_keeps_parameters_as_they_are() -> None:
    raw = b'{"requests":["r"],"opaque":{"driver":"d","parameters":{"b": 1,"a":[]}}}'
    fields = msgspec.json.decode(raw, type=ConfigurationFields)

    assert configuration(fields, "FromClaim") == DeviceConfiguration(
        "FromClaim", ("r",), '{"opaque":{"driver":"d","parameters":{"b": 1,"a":[]}}}'
    )
    assert configuration(ConfigurationFields(), "FromClass").content == "{}"


@pytest.mark.parametrize(("raw", "wanted"), [(b"", False), (b"null", False), (b"[1]", True)])
def test_knows_whether_a_field_is_set(raw: bytes, wanted: bool) -> None:
    assert is_set(msgspec.Raw(raw)) is wanted
