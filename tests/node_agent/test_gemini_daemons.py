"""Which of Gemini's daemons run, and how they are started."""

import pytest

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.gemini import GeminiDaemon, GeminiPorts, read_ports, wanted

X, Y = GpuUuid("GPU-x"), GpuUuid("GPU-y")
PORTS = {X: 49901, Y: 49902}
FILES = {X: "2\nml/a 50051\nml/b 50052\n", Y: "0\n"}


def test_each_card_has_a_scheduler_whose_port_it_keeps() -> None:
    ports = GeminiPorts()
    assert ports.of([X, Y]) == PORTS
    assert ports.of([Y]) == {Y: 49902}
    z = GpuUuid("GPU-z")
    assert ports.of([z, Y, X]) == {z: 49903, **PORTS}


def test_a_pod_manager_runs_while_its_cards_scheduler_does() -> None:
    schedulers = [GeminiDaemon(X, 49901), GeminiDaemon(Y, 49902)]
    assert wanted(PORTS, FILES, ()) == schedulers
    assert wanted(PORTS, FILES, {X}) == [
        *schedulers,
        GeminiDaemon(X, 49901, "ml/a", 50051),
        GeminiDaemon(X, 49901, "ml/b", 50052),
    ]


def test_the_programs_get_the_options_and_variables_of_kubeshares_launcher() -> None:
    options = " ".join(GeminiDaemon(Y, 49902).arguments("/config"))
    assert options == "-p /config -f GPU-y -P 49902 -q 300 -m 20 -w 10000"
    assert GeminiDaemon(Y, 49902).environment() == {}
    pod = GeminiDaemon(Y, 49902, "ml/a", 50051)
    assert pod.arguments("/config") == ()
    assert pod.environment() == {
        "SCHEDULER_IP": "127.0.0.1",
        "SCHEDULER_PORT": "49902",
        "POD_MANAGER_IP": "0.0.0.0",
        "POD_MANAGER_PORT": "50051",
        "POD_NAME": "ml/a",
    }


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        ("", ()),
        ("0\n", ()),
        ("x\nml/a 50051\n", ()),
        ("1\nml/a 50051\nml/left-over 50052\n", (("ml/a", 50051),)),
        ("3\nml/a\nml/b 99999\nml/c 50053\n", (("ml/c", 50053),)),
        ("2\nml/a 50051\n", (("ml/a", 50051),)),
    ],
)
def test_lines_that_cannot_be_read_are_left_out(
    text: str, pods: tuple[tuple[str, int], ...]
) -> None:
    assert read_ports(text) == pods
