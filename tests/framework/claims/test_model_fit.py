"""Which GPUs have a model that a claim takes."""

from kubeshare_py.cluster.rows import AllRows
from kubeshare_py.domain.gpu_models import PreferredModels
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claims.model_fit import fits_model
from tests.builders import a_gpu
from tests.plugins.small_cluster import SmallCluster


def fitting(claim: GpuClaim) -> list[list[str]] | None:
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("a", model="T4"), a_gpu("b", index=1, model="A100"))
    cluster.node("n2", a_gpu("c", model="T4"))
    fits = fits_model(claim)
    if fits is None:
        return None
    columns = cluster.ledger.columns
    slots = fits(AllRows(columns)).tolist()
    return [
        [columns.uuids[row][slot] for slot, fit in enumerate(slots[row]) if fit] for row in (0, 1)
    ]


def test_a_claim_without_a_model_takes_every_gpu() -> None:
    assert fitting(GpuClaim(milli=500)) is None


def test_only_gpus_of_a_named_model_fit_and_no_empty_slot() -> None:
    assert fitting(GpuClaim(milli=500, models=("T4",))) == [["a"], ["c"]]


def test_gpus_of_a_denied_model_do_not_fit() -> None:
    claim = GpuClaim(milli=500, preferred=PreferredModels(denied=("T4",)))
    assert fitting(claim) == [["b"], []]
