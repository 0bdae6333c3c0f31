from kubeshare_py.domain.diagnosis import UNCOUNTED, Diagnosis
from kubeshare_py.domain.printable import MAX_MESSAGE


def test_a_message_is_not_as_long_as_all_the_names_in_it() -> None:
    names = [f"example.com/{number:03}" + 300 * "a" for number in range(64)]
    counts = tuple((f"Insufficient {name}", 1) for name in names)
    message = Diagnosis(nodes=1, counts=counts).message
    assert len(message) == MAX_MESSAGE + 1
    assert message.startswith("0/1 nodes are available: 1 Insufficient example.com/000aaa")
    assert message.endswith("aaa…")
    assert Diagnosis(sentence="one").message == "one"


def test_what_is_said_of_evictions_comes_after_the_counts_and_before_remarks() -> None:
    found = Diagnosis(nodes=2, counts=(("full", 2),), post_filter="preemption: no.", remark="So.")
    assert found.message == "0/2 nodes are available: 2 full. preemption: no. So."
    assert found.reasons == {"full", "So."}
    of_pod = Diagnosis(nodes=2, counts=(("no claim", UNCOUNTED),))
    assert of_pod.message == "0/2 nodes are available: no claim."
    assert Diagnosis(post_filter="x").message == "no nodes available to schedule pods"


def test_a_limit_that_ends_with_a_question_gets_no_full_stop() -> None:
    counts = (("no GPU of model A100", 1),)
    asked = Diagnosis(nodes=1, counts=counts, limit="impossible: did you mean T4?")
    assert asked.message.startswith("impossible: did you mean T4? 0/1 nodes")
    told = Diagnosis(nodes=1, counts=counts, limit="impossible: there is T4")
    assert told.message.startswith("impossible: there is T4. 0/1 nodes")
