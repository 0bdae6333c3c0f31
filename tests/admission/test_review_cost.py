"""What a review costs the webhook, in calls of functions: they do not depend on the machine."""

from collections.abc import Callable
from functools import partial

import pytest

from kubeshare_py.admission.review import answer, answer_of_others
from tests.admission.patched import ALL, SHARE, Json, a_pod, review
from tests.making.calls import counted

#: As kube-apiserver sends a container, with ten variables, and the fields that it fills in.
CONTAINER = {
    "image": "x",
    "env": [{"name": f"E{number}", "value": "v"} for number in range(10)],
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "imagePullPolicy": "Always",
}
#: The most calls for a pod of so many containers, about a quarter more than there were in November
#: 2026; then 300 calls, decoding, HTTP and TLS were half a millisecond of a processor.
CEILINGS = {
    ("ours", 1): 380,
    ("ours", 3): 480,
    ("others", 1): 70,
    ("others", 3): 110,
}


def pod(whose: str, containers: int) -> Json:
    many = [{**CONTAINER, "name": f"c{number}"} for number in range(containers)]
    if whose == "ours":
        return a_pod(SHARE, containers=many)
    return a_pod(schedulerName="default-scheduler", containers=many)


def calls_for(ask: Callable[[bytes], bytes | None], body: bytes) -> int:
    """How many calls of functions an answer takes, once another one was given."""
    ask(body)
    answered, calls = counted(lambda: ask(body))
    assert answered is not None
    assert b'"patch"' in answered
    return calls.total()


@pytest.mark.parametrize(("whose", "containers"), CEILINGS)
def test_a_review_takes_few_calls(whose: str, containers: int) -> None:
    ask = partial(answer, rules=ALL) if whose == "ours" else answer_of_others
    found = calls_for(ask, review(pod(whose, containers)))
    assert found <= CEILINGS[whose, containers], found
    assert found > CEILINGS[whose, containers] // 2, found
