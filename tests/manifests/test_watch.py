import json

import msgspec
import pytest

from kubeshare_py.domain.printable import MAX_SAID
from kubeshare_py.manifests.watch import Codec, Problem, UnreadableAnswer


class Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    uid: str
    resource_version: str = ""


class Thing(msgspec.Struct, gc=False):
    metadata: Meta
    size: int = 0


CODEC = Codec(Thing)


def thing(name: str, version: int = 1, **fields: object) -> dict[str, object]:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, **fields}


def event(kind: str, item: object) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode()


def test_a_page_gives_its_items_version_and_continuation() -> None:
    page = CODEC.page(
        json.dumps(
            {"metadata": {"resourceVersion": "9", "continue": "c"}, "items": [thing("a", size=3)]}
        ).encode()
    )
    assert [(item.metadata.name, item.size) for item in page.items] == [("a", 3)]
    assert (page.resource_version, page.continue_token, page.problems) == ("9", "c", [])


def test_an_empty_list_may_be_null() -> None:
    assert CODEC.page(b'{"metadata":{"resourceVersion":"9"},"items":null}').items == []


def test_one_malformed_object_does_not_spoil_the_page() -> None:
    bad = thing("bad", size="huge")
    page = CODEC.page(json.dumps({"metadata": {}, "items": [thing("a"), bad, thing("b")]}).encode())
    assert [item.metadata.name for item in page.items] == ["a", "b"]
    assert page.problems == [
        Problem(
            namespace="ns",
            name="bad",
            uid="uid-bad",
            text="Expected `int`, got `str` - at `$.size`",
        )
    ]


def test_objects_that_cannot_even_be_named_are_problems_too() -> None:
    items = [[], {"metadata": 3}, {"metadata": {"uid": 3, "name": "n"}}]
    page = CODEC.page(json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode())
    assert [problem.name for problem in page.problems] == ["", "", "n"]
    assert page.resource_version == "9"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": 3}', b'{"items": [', b"\xff"])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        CODEC.page(body)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_line_gives_its_item_and_version(kind: str) -> None:
    line = CODEC.line(event(kind, thing("a", 7)))
    assert (line.type, CODEC.version(line), line.problem) == (kind, "7", None)
    assert line.item is not None
    assert line.item.metadata.uid == "uid-a"


def test_a_bookmark_has_a_version_and_no_item() -> None:
    line = CODEC.line(event("BOOKMARK", {"metadata": {"resourceVersion": "12"}, "spec": None}))
    assert (line.type, CODEC.version(line), line.item, line.problem) == (
        "BOOKMARK",
        "12",
        None,
        None,
    )


def test_a_bookmark_that_could_be_an_item_is_none_either() -> None:
    assert CODEC.line(event("BOOKMARK", thing("", 12))).item is None


def test_an_error_has_a_status_code() -> None:
    line = CODEC.line(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"}))
    assert (line.type, line.status_code) == ("ERROR", 410)
    assert line.problem == Problem(text="too old")


def test_a_long_message_of_an_error_is_cut_off() -> None:
    line = CODEC.line(event("ERROR", {"kind": "Status", "code": 500, "message": "x" * 100_000}))
    assert line.problem is not None
    assert len(line.problem.text) <= MAX_SAID + 1


def test_a_malformed_object_of_a_line_is_named_and_moves_the_watch_on() -> None:
    line = CODEC.line(event("MODIFIED", thing("bad", 8, size="huge")))
    assert (line.type, line.item, CODEC.version(line)) == ("MODIFIED", None, "8")
    assert line.problem == Problem(
        namespace="ns", name="bad", uid="uid-bad", text="Expected `int`, got `str` - at `$.size`"
    )


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"type": 3}', b"\xff\xfe"])
def test_a_line_that_is_no_event_has_no_type(line: bytes) -> None:
    decoded = CODEC.line(line)
    assert decoded.type == ""
    assert decoded.problem is not None


def test_an_error_is_one_for_a_type_that_would_take_anything_too() -> None:
    class LooseMeta(msgspec.Struct):
        resourceVersion: str = ""

    class Loose(msgspec.Struct):
        metadata: LooseMeta = msgspec.field(default_factory=LooseMeta)

    line = Codec(Loose).line(event("ERROR", {"kind": "Status", "metadata": {}, "code": 410}))
    assert (line.status_code, line.item) == (410, None)


def managed(levels: int) -> bytes:
    """A thing with what any user may write and an API server keeps."""
    fields = b'{"f:a":' * levels + b"{}" + b"}" * levels
    meta = json.dumps(thing("deep", 7)["metadata"])[:-1].encode()
    return b'{"metadata":%s,"managedFields":[{"fieldsV1":%s}]},"size":5}' % (meta, fields)


@pytest.mark.parametrize("levels", [10, 900, 1100, 9_990])
def test_an_object_that_is_nested_deeper_than_a_decoder_goes_is_read(levels: int) -> None:
    good = json.dumps(thing("good")).encode()
    page = CODEC.page(b'{"metadata":{},"items":[%s,%s]}' % (managed(levels), good))
    assert [item.metadata.name for item in page.items] == ["deep", "good"]
    line = CODEC.line(b'{"type":"MODIFIED","object":%s}' % managed(levels))
    assert line.item is not None
    assert (line.item.metadata.name, line.item.size, CODEC.version(line)) == ("deep", 5, "7")


def test_a_bad_object_that_is_nested_deep_spoils_nothing_else() -> None:
    bad = managed(3000).replace(b'"size":5', b'"size":"x"')
    page = CODEC.page(b'{"metadata":{},"items":[%s,%s]}' % (bad, json.dumps(thing("b")).encode()))
    assert [item.metadata.name for item in page.items] == ["b"]
    (problem,) = page.problems
    assert problem.name == "deep"
    assert problem.text.endswith("at `$.size`")


def test_what_comes_before_or_after_a_bad_object_may_be_nested_deep_too() -> None:
    bad, good = json.dumps(thing("bad", size="x")).encode(), json.dumps(thing("good")).encode()
    page = CODEC.page(b'{"metadata":{},"items":[%s,%s,%s]}' % (bad, managed(3000), good))
    assert [item.metadata.name for item in page.items] == ["deep", "good"]
    assert [problem.name for problem in page.problems] == ["bad"]
    both = bad[:-1] + b',"then":%s}' % managed(3000)
    line = CODEC.line(b'{"type":"ADDED","object":%s}' % both)
    assert (line.type, CODEC.version(line)) == ("ADDED", "1")
    assert line.problem is not None
    assert line.problem.name == "bad"


def test_a_change_without_an_object_is_a_problem() -> None:
    line = CODEC.line(b'{"type":"ADDED","object":null}')
    assert (line.type, line.item, CODEC.version(line)) == ("ADDED", None, "")
    assert line.problem == Problem(text="Expected `object`, got `null` - at `$`")


def test_a_second_codec_of_a_type_builds_no_decoder() -> None:
    Codec(Thing)
    types = len(msgspec.Struct.__subclasses__())
    Codec(Thing)
    assert len(msgspec.Struct.__subclasses__()) == types
