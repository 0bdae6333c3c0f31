"""Of a pod that no scheduler places, `why` says what to do."""

from kubeshare_py.domain.dialect_switch import ALL_ON
from kubeshare_py.terminal.pod_table import SchedulerNames, foreign_sentence


def test_a_pod_of_a_dialect_without_our_schedulername() -> None:
    said = foreign_sentence(
        "research/x",
        scheduler="default-scheduler",
        asks_by="aliyun.com/gpu-mem",
    )
    assert said == (
        "no scheduler here places research/x: its schedulerName is default-scheduler. It asks for "
        "aliyun.com/gpu-mem: kubectl label namespace research kubeshare.io/dialects=true and "
        "create it anew, or set schedulerName: kubeshare-scheduler. If its dialect is off: "
        f"{ALL_ON}"
    )


def test_a_misspelt_schedulername() -> None:
    said = foreign_sentence("default/x", scheduler="kubeshare-schedular")
    assert said.startswith("no scheduler here places default/x: none is called kubeshare-sched")
    assert "Did you mean schedulerName: kubeshare-scheduler?" in said


def test_a_pod_of_a_scheduler_that_says_nothing_of_it() -> None:
    key = "nano-gpu/gpu-percent"
    said = foreign_sentence("default/x", scheduler="nano", asks_by=key)
    assert said == (
        "pod default/x waits for a scheduler called nano, which says nothing of it. It asks for "
        f"{key}: if no such scheduler runs, create it anew with schedulerName: kubeshare-scheduler"
    )
    said = foreign_sentence("default/x", scheduler="nano", asks_by=key, message="no room")
    assert "is scheduled by nano, which says: no room" in said


def test_a_pod_that_has_a_node_is_its_schedulers() -> None:
    said = foreign_sentence("default/x", scheduler="default-scheduler", node="n1", asks_by="x")
    assert "is scheduled by default-scheduler, on node n1" in said


def test_the_schedulers_own_names_are_those_of_its_profiles() -> None:
    ours = SchedulerNames(("gpu", "batch"))
    said = foreign_sentence("default/x", scheduler="batch", ours=ours)
    assert said == "the scheduler has not seen pod default/x yet"
    said = foreign_sentence("default/x", scheduler="bach", ours=ours)
    assert said.endswith("Did you mean schedulerName: batch? Create it anew with that")
    said = foreign_sentence("default/x", scheduler="kubeshare-scheduler", ours=ours)
    assert said.endswith("pods with its own schedulerNames (schedulerNames: gpu, batch)")
    said = foreign_sentence("a/x", scheduler="", asks_by="aliyun.com/gpu-mem", ours=ours)
    assert "or set schedulerName: gpu. " in said


def test_that_the_names_are_not_known_is_said() -> None:
    ours = SchedulerNames(unknown="forbidden")
    for scheduler in ("kubeshare-scheduler", "kubeshare-schedular", "other"):
        said = foreign_sentence("default/x", scheduler=scheduler, ours=ours)
        assert said.endswith(". Which names its profiles have is not known: forbidden")
