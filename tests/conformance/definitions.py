"""CustomResourceDefinitions for tests: as much as a test is about."""

from typing import Any

from tests.embedded_cluster.api_client import Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/example.com"
WIDGETS = f"{GROUP}/v1/namespaces/fs/widgets"
#: The definition of widgets, and the widget named w.
WIDGET = f"{DEFINITIONS}/widgets.example.com"
W = f"{WIDGETS}/w"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def schema_of(spec: Any = None, status: Any = None) -> dict[str, Any]:
    """A schema with these fields of spec and status."""
    parts = {"spec": spec, "status": status}
    properties = {
        name: {"type": "object", "properties": fields}
        for name, fields in parts.items()
        if fields is not None
    }
    return {"type": "object", "properties": properties}


def version(name: str = "v1", schema: Any = None, **more: Any) -> dict[str, Any]:
    """A served version that is stored, unless told otherwise."""
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or ANYTHING},
        **more,
    }


def definition(*versions: Any, kind: str = "Widget", **spec: Any) -> dict[str, Any]:
    """A definition of a namespaced kind in the group example.com."""
    plural = f"{kind.lower()}s"
    names = {"plural": plural, "kind": kind, **spec.pop("names", {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def spec_of(**properties: Any) -> dict[str, Any]:
    """A definition whose objects have these fields in their spec."""
    return definition(version(schema=schema_of(properties)))


def define(api: Api, body: Any, url: str = WIDGETS) -> Any:
    """Create a definition and wait until its objects are served under the URL."""
    created = api.post(DEFINITIONS, body)
    assert api.status == 201, created
    established(api, body["metadata"]["name"])
    api.expect_eventually(lambda: (api.get(url), api.status)[1], lambda status: status == 200)
    return created


def established(api: Api, name: str) -> None:
    """Wait until a definition's names are accepted, and its kind is served."""
    url = f"{DEFINITIONS}/{name}"
    api.expect_eventually(
        lambda: api.get(url), lambda found: conditions(found).get("Established") == "True"
    )


def conditions(found: Any) -> dict[str, str]:
    """The status of each of a definition's conditions."""
    held = found.get("status", {}).get("conditions") or []
    return {condition["type"]: condition["status"] for condition in held}


def widget(name: str = "w", spec: Any = None, **more: Any) -> dict[str, Any]:
    """An object of that kind."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec or {},
        **more,
    }


def causes(status: Any) -> set[tuple[str, str]]:
    """Fields and messages of a 422."""
    return {(cause["field"], cause["message"]) for cause in status["details"]["causes"]}


def warnings(api: Api) -> list[str]:
    """The texts of the last answer's warnings."""
    texts = [text for name, text in api.answer.headers if name == "Warning"]
    return [text.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for text in texts]


#: A kind that is sized and coloured, without and with URLs of its own for status and scale.
SIZED = schema_of(
    {"size": {"type": "integer"}, "color": {"type": "string", "default": "red"}},
    {"phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}},
)
WITH_STATUS = version(schema=SIZED, subresources={"status": {}})
SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
WITH_SCALE = version(schema=SIZED, subresources={"status": {}, "scale": SCALE})
