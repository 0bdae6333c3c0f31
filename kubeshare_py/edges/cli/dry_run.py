"""What the API server would make of pods: dry runs of their creation, which create nothing.

https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

import os
from collections.abc import Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import msgspec

from kubeshare_py.edges.cli.access import ApiAccess
from kubeshare_py.edges.cli.https_client import HttpAnswer
from kubeshare_py.edges.cli.kubeconfig_reading import DEFAULT_NAMESPACE
from kubeshare_py.edges.cli.state_client import message_of
from kubeshare_py.edges.cli.state_errors import StateUnreachable
from kubeshare_py.edges.cli.state_routes import ApiServerRoute
from kubeshare_py.manifests.api_paths import CORE, collection_path
from kubeshare_py.manifests.pod_check import AdmissionAnswer
from kubeshare_py.manifests.pod_templates import PodTemplate

#: Beginnings and parts of the messages by which admission policies and webhooks refuse; others are
#: about what the template leaves to its owner (a volume), or about what is not there yet.
_ADMISSION_SAYS = ("ValidatingAdmissionPolicy", "admission webhook")
#: So many pods of one call are asked about: a chart has fewer.
_MOST = 200


class DryRuns:
    """Asks the API server of a kubeconfig. After a failure it asks no more.

    `namespace` is the one that the user means, and `problem` why the API server cannot be asked.
    """

    def __init__(
        self, access: ApiAccess, environ: Mapping[str, str] = os.environ, *, is_offline: bool
    ) -> None:
        """Read the kubeconfig. Raises StateUnreachable if one is named and cannot be used."""
        self._api = ApiServerRoute(access, environ)
        self._left = 0 if is_offline else _MOST
        self.problem = ""
        self.namespace = access.namespace or DEFAULT_NAMESPACE
        if is_offline:
            return
        try:
            self.namespace = self._api.namespace()
            self._api.server()
        except StateUnreachable:
            if access.kubeconfig or access.context or access.server:
                raise
            self._left = 0  # There is no cluster, which is usual where manifests are made.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._api.close()

    def admission(self, template: PodTemplate) -> AdmissionAnswer:
        """What the API server says to this pod. Nothing for SharePods: a controller makes theirs.

        Never raises: a server that cannot be reached is a `problem`.
        """
        pod = _dry_pod(template.pod)
        if not self._left or pod is None or template.owner.startswith("sharepod/"):
            return AdmissionAnswer()
        self._left -= 1
        namespace = template.namespace or self.namespace
        path = f"{collection_path(CORE, 'pods', namespace)}?dryRun=All"
        try:
            answer = self._api.post(path, msgspec.json.encode(pod))
        except StateUnreachable as error:
            self._left, self.problem = 0, str(error)
            return AdmissionAnswer()
        if answer.status == HTTPStatus.CREATED:
            return AdmissionAnswer(pod=answer.body, notes=answer.warnings)
        return self._not_created(answer)

    def _not_created(self, answer: HttpAnswer) -> AdmissionAnswer:
        said = message_of(answer)
        if any(text in said for text in _ADMISSION_SAYS):
            return AdmissionAnswer(refusal=said, notes=answer.warnings)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._left, self.problem = 0, said
            return AdmissionAnswer()
        note = f"the API server does not say what it would make of it: {said}"
        return AdmissionAnswer(notes=(note,))


def _dry_pod(pod: object) -> dict[str, Any] | None:
    """A pod that can be created without a name; None if that is no pod at all."""
    if not isinstance(pod, dict):
        return None
    given = pod.get("metadata")
    kept = ("labels", "annotations")
    metadata = given if isinstance(given, dict) else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # Not the pod's own name, which may be in use.
        "metadata": {
            "generateName": "kubeshare-check-",
            **{key: metadata[key] for key in kept if key in metadata},
        },
        "spec": pod.get("spec"),
    }
