"""The smallest OpenAPI v3 documents with which `kubectl apply` and `create -f` work.

kubectl searches, per kind, for a PATCH operation with the query parameter `fieldValidation`; it
then leaves validation to the server. Only custom kinds have schemas: `kubectl explain` shows
nothing for the others.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from kubeshare_py.embedded_cluster.apiserver.openapi_schemas import schemas_of
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, json_response
from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.status import Json, no_such_resource

_ROOT = "/openapi/v3"
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def openapi(
    path: str, accept: str, kinds: Sequence[Resource], aggregated: Sequence[Resource] = ()
) -> ApiResponse:
    """GET /openapi/v2, /openapi/v3 and one v3 document per group version; 404 for others.

    Those of `aggregated` kinds are listed; their servers have the documents.
    """
    if path == "/openapi/v2":
        return _version_2(accept)
    if path.rstrip("/") == _ROOT:
        paths = {
            _prefix(version): {"serverRelativeURL": _url(version, kinds)}
            for version in _versions(kinds)
        }
        for version in _versions(aggregated):
            prefix = _prefix(version)
            paths.setdefault(prefix, {"serverRelativeURL": f"{_ROOT}/{prefix}"})
        return json_response({"paths": paths})
    for version in _versions(kinds):
        if path == f"{_ROOT}/{_prefix(version)}":
            return json_response(_document(version, kinds))
    raise no_such_resource()


def _version_2(accept: str) -> ApiResponse:
    """A document without definitions.

    kubectl reads it (in protobuf, where nothing is an empty document) to validate `kind: List`; it
    skips kinds that are not defined there.
    """
    if "protobuf" in accept:
        return ApiResponse(content_type=_V2_PROTOBUF)
    info = {"title": "kubeshare-py embedded API server", "version": "v1"}
    return json_response({"swagger": "2.0", "info": info, "paths": {}})


def _versions(kinds: Sequence[Resource]) -> list[str]:
    return sorted({row.api_version for row in kinds})


def _prefix(version: str) -> str:
    return f"apis/{version}" if "/" in version else f"api/{version}"


def _url(version: str, kinds: Sequence[Resource]) -> str:
    # kubectl keeps a document for as long as its hash is the same.
    document = msgspec.json.encode(_document(version, kinds))
    digest = hashlib.sha256(document).hexdigest()[:16].upper()
    return f"{_ROOT}/{_prefix(version)}?hash={digest}"


def _document(version: str, kinds: Sequence[Resource]) -> Json:
    rows = [row for row in kinds if row.api_version == version]
    paths = {_path(row): {"patch": _operation(row)} for row in rows}
    info = {"title": "kubeshare-py embedded API server", "version": version}
    components = {"schemas": schemas_of(rows)}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": components}


def _path(row: Resource) -> str:
    middle = "namespaces/{namespace}/" if row.namespaced else ""
    return f"/{_prefix(row.api_version)}/{middle}{row.plural}/{{name}}"


def _operation(row: Resource) -> Json:
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": row.group,
            "version": row.version,
            "kind": row.kind,
        },
    }
