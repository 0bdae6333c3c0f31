"""The images of a pod, and those of a node."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.bounds import NODE_IMAGES
from kubeshare_py.domain.needs.images import NodeImage, PodImages
from kubeshare_py.manifests.node import NodeFields, to_domain
from tests.manifests.written import pod


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("registry.example:5000/app", "registry.example:5000/app:latest"),
        ("registry.example:5000/app:2", "registry.example:5000/app:2"),
        ("app@sha256:00", "app@sha256:00"),
    ],
)
def test_a_name_without_a_tag_is_the_latest(name: str, known_as: str) -> None:
    found = pod({"containers": [{"name": "c", "image": name}]})
    assert found.images == PodImages((known_as,), 1)


def test_images_of_all_containers_and_volumes_count() -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "x:1"}],
        "initContainers": [{"name": "i", "image": "y:1"}, {"name": "none"}],
        "volumes": [
            {"name": "v", "image": {"reference": "z"}},
            {"name": "w", "image": 7},
            {"name": "u", "emptyDir": {}},
        ],
    }
    found = pod(spec)
    assert found.images == PodImages(("x:1", "x:1", "y:1", "z:latest"), 4)
    assert found.shape.images is None
    assert pod(spec | {"nodeName": "n"}).images is None
    assert pod(spec).images is found.images


def node_images(*images: dict[str, Any]) -> tuple[NodeImage, ...]:
    written = {"metadata": {"name": "n"}, "status": {"images": images}}
    return to_domain(msgspec.json.decode(msgspec.json.encode(written), type=NodeFields)).images


def test_images_of_a_node_have_names_and_a_size() -> None:
    found = node_images({"names": ["x:1", "x@sha256:0"], "sizeBytes": 7}, {})
    assert found == (NodeImage(("x:1", "x@sha256:0"), 7), NodeImage((), 0))


def test_of_a_node_so_many_images_are_read() -> None:
    most = NODE_IMAGES.most
    assert len(node_images(*({"names": [f"x:{at}"]} for at in range(most + 1)))) == most
