"""`none`: pods see the card that they hold, by its uuid, and nothing limits them."""

import pytest

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.isolation.backends import NONE
from tests.gpu.card import cuda_process, variables
from tests.gpu.conftest import Figure

pytestmark = pytest.mark.gpu
GIB = 1 << 30


def test_the_uuid_of_an_allocation_is_the_name_by_which_cuda_gives_the_card(uuid: GpuUuid) -> None:
    with cuda_process({"CUDA_VISIBLE_DEVICES": uuid}) as program:
        assert program.do("cards")["uuids"] == [uuid]


def test_a_uuid_that_is_no_card_of_this_node_gives_no_card(uuid: GpuUuid) -> None:
    other = uuid[:-4] + ("0000" if uuid[-4:] != "0000" else "1111")
    with cuda_process({"CUDA_VISIBLE_DEVICES": other}) as program:
        assert program.ask("cards")["code"] != 0


def test_a_pod_may_take_more_than_its_share(uuid: GpuUuid, figure: Figure) -> None:
    share = variables(NONE, uuid, milli=100, memory_bytes=GIB)
    assert share == {}
    with cuda_process({**share, "CUDA_VISIBLE_DEVICES": uuid}) as program:
        total = program.do("memory")["total"]
        taken = program.most_bytes(GIB)
    assert taken > total // 2
    figure(f"none: a pod with a share of 1 GiB took {taken // GIB} of {total / GIB:.1f} GiB")
