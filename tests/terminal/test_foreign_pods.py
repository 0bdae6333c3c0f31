"""Of a pod that no scheduler places, `why` says what to do."""

from kubeshare_py.terminal.foreign_pods import foreign_sentence


def test_a_pod_of_a_dialect_without_our_schedulername() -> None:
    said = foreign_sentence(
        "research/x",
        scheduler="default-scheduler",
        asks_by="aliyun.com/gpu-mem",
        namespace="research",
    )
    assert said == (
        "nobody here places research/x: its schedulerName is default-scheduler. It asks for "
        "aliyun.com/gpu-mem: kubectl label namespace research kubeshare.io/dialects=true and "
        "create it anew, or set schedulerName: kubeshare-scheduler"
    )


def test_a_misspelt_schedulername() -> None:
    said = foreign_sentence("default/x", scheduler="kubeshare-schedular")
    assert said.startswith("nobody here places default/x: no scheduler is called kubeshare-sched")
    assert "Did you mean schedulerName: kubeshare-scheduler?" in said


def test_a_pod_that_has_a_node_is_its_schedulers() -> None:
    said = foreign_sentence("default/x", scheduler="default-scheduler", node="n1", asks_by="x")
    assert "is scheduled by default-scheduler, on node n1" in said
