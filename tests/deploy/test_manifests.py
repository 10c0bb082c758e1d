import importlib.util
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

BASE = Path(__file__).resolve().parents[2] / "deploy" / "k8s" / "base"
DOCUMENTS = [
    document
    for path in sorted(BASE.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in yaml.safe_load_all(path.read_text())
]
DEPLOYMENTS = [document for document in DOCUMENTS if document["kind"] == "Deployment"]


def _name(document: dict[str, Any]) -> str:
    return f"{document['kind']}-{document['metadata']['name']}"


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_each_object_fits_the_schema(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_kustomization_lists_every_file() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(path.name for path in BASE.glob("*.yaml") if path.name != "kustomization.yaml")


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=_name)
def test_a_container_runs_a_module_that_exists_on_the_port_that_is_probed(deployment: dict[str, Any]) -> None:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    _, _, module, flag, address = container["command"]
    assert importlib.util.find_spec(f"{module}.__main__") is not None
    assert flag == "--listen"
    port = int(address.rpartition(":")[2])
    ports = [container[probe]["grpc"]["port"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")]
    assert [*ports, container["ports"][0]["containerPort"]] == [port] * 4


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=_name)
def test_a_pod_is_restricted(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]


def test_services_select_the_pods_of_their_component() -> None:
    pods = {d["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] for d in DEPLOYMENTS}
    selected = {d["spec"]["selector"]["app.kubernetes.io/component"] for d in DOCUMENTS if d["kind"] == "Service"}
    assert selected == pods == {"orchestrator", "generator", "judge", "profiler"}
