"""Patches of claims and volumes, each for one version of its object."""

import json
from http import HTTPStatus

import pytest

from kubeshare_py.domain.events import WriteOutcome
from kubeshare_py.domain.needs.object_writes import ClaimVolume, SelectNode
from kubeshare_py.manifests.volumes.object_writes import read_write_error, write_patch, write_path

SELECT = SelectNode(namespace="team", claim="data", version="41", node="n1")
CLAIM = ClaimVolume(
    volume="pv-1",
    version="7",
    namespace="team",
    claim="data",
    claim_uid="u-1",
    claim_version="41",
)
REFERENCE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": "team",
    "name": "data",
    "uid": "u-1",
    "resourceVersion": "41",
}


def test_a_claim_gets_the_selected_node() -> None:
    assert write_path(SELECT) == "/api/v1/namespaces/team/persistentvolumeclaims/data"
    assert json.loads(write_patch(SELECT)) == {
        "metadata": {
            "resourceVersion": "41",
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        }
    }


def test_a_volume_gets_the_claim_and_says_that_no_person_bound_it() -> None:
    assert write_path(CLAIM) == "/api/v1/persistentvolumes/pv-1"
    assert json.loads(write_patch(CLAIM)) == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {"claimRef": REFERENCE},
    }


def test_a_volume_that_a_person_kept_for_the_claim_says_no_such_thing() -> None:
    kept = ClaimVolume(
        volume="pv-1",
        version="7",
        namespace="team",
        claim="data",
        claim_uid="u-1",
        claim_version="41",
        is_kept=True,
    )
    assert json.loads(write_patch(kept)) == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"claimRef": REFERENCE},
    }


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (HTTPStatus.CONFLICT, WriteOutcome.STALE),
        (HTTPStatus.UNAUTHORIZED, WriteOutcome.UNKNOWN),
        (HTTPStatus.TOO_MANY_REQUESTS, WriteOutcome.UNKNOWN),
        (HTTPStatus.INTERNAL_SERVER_ERROR, WriteOutcome.UNKNOWN),
        (HTTPStatus.GATEWAY_TIMEOUT, WriteOutcome.UNKNOWN),
        (HTTPStatus.FORBIDDEN, WriteOutcome.REFUSED),
        (HTTPStatus.NOT_FOUND, WriteOutcome.REFUSED),
        (HTTPStatus.UNPROCESSABLE_ENTITY, WriteOutcome.REFUSED),
    ],
)
def test_an_error_says_what_became_of_the_write(status: int, outcome: WriteOutcome) -> None:
    assert read_write_error(status) is outcome
