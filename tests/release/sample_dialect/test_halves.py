from halves import Halves

from kubeshare_py.dialects.api import GpuRequest, read


def test_each_container_gets_half_a_gpu_of_its_own() -> None:
    asked = read(Halves(), {"example.com/half": 1}, {}, {"example.com/half": 1})
    assert isinstance(asked, GpuRequest)
    assert [(str(one.container), one.claim.milli) for one in asked.claims] == [
        ("container-0", 500),
        ("container-2", 500),
    ]


def test_more_than_a_half_is_refused() -> None:
    problem = read(Halves(), {"example.com/half": 2})
    assert str(problem) == 'example.com/half="2": must be 1, half a GPU'


def test_the_name_of_the_resource_can_be_chosen() -> None:
    halves = Halves("corp.example/half")
    assert read(halves, {"corp.example/half": 1}) is not None
    assert read(halves, {"example.com/half": 1}) is None
