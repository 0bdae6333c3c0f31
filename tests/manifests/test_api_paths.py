"""Names in paths: whatever they are, each stays one segment that names no other object."""

from posixpath import normpath
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.manifests.api_paths import (
    CORE,
    collection_path,
    is_label_name,
    is_subdomain_name,
    node_path,
    object_path,
    pod_path,
)

NAMES = st.text(st.characters(exclude_categories=()), max_size=20)
GROUP = "/apis/resource.k8s.io/v1"


@given(NAMES, NAMES)
@example("?watch=true&x=1", "..")
@example("", "")
@example(".", "a/b")
@example("%2e%2e", "\x00")
@example("#", "\r\nX: y")
@example("\ud800", "é")
def test_any_name_is_one_segment_and_nothing_else_of_the_path_changes(
    namespace: str, name: str
) -> None:
    for path, segments in (
        (pod_path(PodKey(namespace, name)), 6),
        (object_path(GROUP, "resourceclaims", name, namespace), 7),
        (node_path(name), 4),
        (collection_path(CORE, "pods", namespace), 5),
    ):
        assert path.isascii()
        assert path.isprintable()
        assert " " not in path
        split = urlsplit(path)
        assert (split.scheme, split.netloc, split.query, split.fragment) == ("", "", "", "")
        assert normpath(path) == path
        assert path.count("/") == segments


@given(NAMES)
def test_a_server_reads_the_name_that_was_meant_or_one_that_no_object_has(name: str) -> None:
    read = unquote(node_path(name).rpartition("/")[2], errors="surrogatepass")
    assert read == ("%" if name in ("", ".", "..") else name)


@pytest.mark.parametrize(
    ("name", "is_label", "is_subdomain"),
    [
        ("pod-1", True, True),
        ("a.b", False, True),
        ("a" * 63, True, True),
        ("a" * 64, False, True),
        ("a" * 254, False, False),
        *((text, False, False) for text in ("", ".", "..", "A", "-a", "a-", "a..b", "a\n", "ä")),
        *((text, False, False) for text in ("?watch=true&x=1", "a/b", "%61", "\x00", "a b")),
    ],
)
def test_names_by_rfc_1123(name: str, is_label: bool, is_subdomain: bool) -> None:
    assert is_label_name(name) == is_label
    assert is_subdomain_name(name) == is_subdomain
