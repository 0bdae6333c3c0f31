"""What clients ask of the scheduler's state, and of the API server about themselves."""

import msgspec
import pytest

from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.state_group import (
    SchedulerList,
    UserInfo,
    placement_review,
    reviewed,
    scheduler_list,
    self_access_review,
)
from kubeshare_py.views.view import SchedulerView


def test_a_list_of_schedulers_is_read_as_it_was_written() -> None:
    known = (
        SchedulerView(name="a", dialects=("hami",), extender=True),
        SchedulerView(name="b", dialects=(), extender=False),
    )
    body = msgspec.json.encode(scheduler_list(known))
    assert msgspec.json.decode(body, type=SchedulerList).schedulers == known


def test_a_pod_is_asked_about_in_its_namespace() -> None:
    path, body = placement_review("team a", {"spec": {}})
    assert path == "/apis/state.kubeshare.io/v1/namespaces/team%20a/placementreviews"
    assert (body["kind"], body["spec"]) == ("PlacementReview", {"pod": {"spec": {}}})


def test_a_right_that_is_denied_is_none() -> None:
    assert reviewed(b'{"status": {"allowed": true}}').is_allowed
    assert not reviewed(b'{"status": {"allowed": true, "denied": true}}').is_allowed
    assert not reviewed(b'{"status": {}}').is_allowed


def test_each_review_names_the_user_in_its_own_field() -> None:
    user = b'{"username": "ann", "groups": ["a"], "extra": {"b": ["c"]}}'
    ann = UserInfo("ann", groups=("a",), extra={"b": ("c",)})
    assert reviewed(b'{"status": {"userInfo": %b}}' % user).self_user == ann
    assert reviewed(b'{"status": {"authenticated": true, "user": %b}}' % user).user == ann


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"status": {"allowed": 1}}'])
def test_what_is_no_answered_review_is_refused(body: bytes) -> None:
    with pytest.raises(UNDECODABLE):
        reviewed(body)


def test_rights_are_those_of_the_state_not_of_pods_themselves() -> None:
    asked = self_access_review("pods", "team")["spec"]["resourceAttributes"]
    assert asked == {
        "verb": "list", "group": "state.kubeshare.io", "version": "v1", "resource": "pods",
        "namespace": "team",
    }  # fmt: skip
