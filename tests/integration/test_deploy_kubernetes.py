"""deploy/kubernetes: Kubernetes knows every field, aclog every setting, and the probes are answered."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import yaml

from authorizer.configuration.load import load_config
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from records.principal import KafkaPrincipal
from support.certificates import Authority
from support.cli_commands import parsed_command
from support.data import TESTS, real_log
from support.kafka_broker import HOST, free_ports
from support.nodes import SOON_S
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "deploy" / "kubernetes" / "gateway.yaml"
SCHEMA = json.loads((TESTS / "data" / "kubernetes" / "v1.37.0.json").read_text(encoding="utf-8"))
QUESTION = {
    "subject": {"type": "User", "id": "a"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}
DEFINITIONS = {"ConfigMap": "io.k8s.api.core.v1.ConfigMap", "Deployment": "io.k8s.api.apps.v1.Deployment"}


def objects() -> dict[str, Any]:
    """By their kinds, of which there is one each."""
    loaded = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    found = {each["kind"]: each for each in loaded}
    assert len(found) == len(loaded)
    return found


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = objects()["Deployment"]["spec"]["template"]["spec"]
    return spec


def sidecar() -> dict[str, Any]:
    (container,) = pod()["initContainers"]
    assert isinstance(container, dict)
    return container


def properties() -> str:
    text = objects()["ConfigMap"]["data"]["sidecar.properties"]
    assert isinstance(text, str)
    return text


def errors_of(thing: dict[str, Any]) -> list[str]:
    """What Kubernetes' schema has against it; a field that it does not know is one."""
    schema = {**SCHEMA, "$ref": f"#/$defs/{DEFINITIONS[thing['kind']]}"}
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(thing)]


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_the_manifests_match_kubernetes_schema(kind: str) -> None:
    assert objects().keys() == DEFINITIONS.keys()
    assert errors_of(objects()[kind]) == []


def test_the_schema_refuses_an_invalid_manifest() -> None:
    """A mistyped field, a wrong type and a missing one are found, so the test above says something."""
    for path, value in (
        (("spec", "template", "spec", "terminationGracePeriodSecond"), 60),
        (("spec", "replicas"), "two"),
        (("spec", "selector"), None),
    ):
        wrong = objects()["Deployment"]
        *parents, last = path
        inner = wrong
        for name in parents:
            inner = inner[name]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
        assert errors_of(wrong) != [], path


def test_referenced_objects_exist() -> None:
    """Volumes, ports and the release; each secret of a volume is made by a command that is shown."""
    spec, text = pod(), MANIFEST.read_text(encoding="utf-8")
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounted = {
        mount["name"]
        for container in (*spec["initContainers"], *spec["containers"])
        for mount in container["volumeMounts"]
    }
    assert mounted == volumes.keys()
    for volume in volumes.values():
        if "secret" in volume:
            assert f"kubectl create secret generic {volume['secret']['secretName']} " in text
    assert volumes["config"]["configMap"]["name"] == objects()["ConfigMap"]["metadata"]["name"]
    release = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert release is not None
    assert sidecar()["image"] == f"aclog:{release[1]}"


def test_containers_run_existing_commands() -> None:
    """What the container runs, and what the comments show, aclog takes."""
    shown = re.findall(r"^#     aclog (.+?)(?: > .*)?$", MANIFEST.read_text("utf-8"), re.MULTILINE)
    assert len(shown) == 1
    for words in (sidecar()["args"], *map(shlex.split, shown)):
        parsed_command(words)


def test_settings_are_configuration_keys(tmp_path: Path) -> None:
    """Each key is known and its value allowed; files are where the volumes are mounted."""
    file = tmp_path / "sidecar.properties"
    file.write_text(properties(), encoding="utf-8")
    config = load_config(file, environ={})
    mounts = {mount["mountPath"] for mount in sidecar()["volumeMounts"]}
    files = [line.partition("=")[2] for line in properties().splitlines() if "=/" in line]
    assert len(files) == 3
    for named in files:
        assert {str(parent) for parent in (Path(named), *Path(named).parents)} & mounts, named
    gateway = {each["name"]: each["value"] for each in pod()["containers"][0]["env"]}
    local, probed = config.served_listeners()
    assert gateway["AUTHORIZER_URL"] == f"http://{local.host}:{local.port}"
    (port,) = sidecar()["ports"]
    assert port["containerPort"] == probed.port


def test_no_container_runs_as_root_or_can_become_root() -> None:
    """What the restricted profile of Kubernetes' pod security standards wants, and a read-only root."""
    spec = pod()
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["initContainers"], *spec["containers"]):
        context = container["securityContext"]
        assert context["runAsUser"] > 0
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert sidecar()["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 10001


@pytest.mark.slow
def test_the_configured_listener_answers_the_probes(tmp_path: Path) -> None:
    """A real `aclog serve` with these settings, on another log and other ports, is asked as a kubelet asks.

    By HTTPS, without a certificate, without looking at the server's. The gateway asks with its token, and
    nothing else may ask about others.
    """
    local, outside = free_ports(2)
    token, stored = new_token(KafkaPrincipal("User", "gateway"))
    TOKENS_FILE.put(tmp_path / "tokens", stored)
    Authority().issue("CN=gateway").write(tmp_path / "tls-combined.pem")
    text = properties().replace("/etc/aclog-tls", str(tmp_path)).replace("/etc/aclog-tokens", str(tmp_path))
    text = text.replace("127.0.0.1:8180", f"{HOST}:{local}").replace("SSL://:8443", f"SSL://{HOST}:{outside}")
    text = text.replace("/var/lib/aclog", str(tmp_path)).replace(
        "kafka://kafka-bootstrap:9092/acls", str(real_log("kraft-small"))
    )
    file = tmp_path / "sidecar.properties"
    file.write_text(text, encoding="utf-8")
    arguments = [str(file) if word.endswith(".properties") else word for word in sidecar()["args"]]
    with subprocess.Popen(
        [sys.executable, "-m", "authorizer.cli", *arguments],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            with httpx.Client(verify=False, timeout=SOON_S) as client:  # as a kubelet, which looks at none
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    probe_request = sidecar()[probe]["httpGet"]
                    assert probe_request["port"] == sidecar()["ports"][0]["name"]
                    _until_ok(
                        client, f"{probe_request['scheme'].lower()}://{HOST}:{outside}{probe_request['path']}"
                    )
                assert "aclog_ready 1.0" in client.get(f"https://{HOST}:{outside}/metrics").text
                for base in (f"http://{HOST}:{local}", f"https://{HOST}:{outside}"):
                    url = f"{base}/access/v1/evaluation"
                    assert client.post(url, json=QUESTION).status_code == 403
                    headers = {"authorization": f"Bearer {token}"}
                    assert "decision" in client.post(url, json=QUESTION, headers=headers).json()
        finally:
            process.terminate()
    assert process.returncode == 0


def _until_ok(client: httpx.Client, url: str) -> None:
    def is_ok() -> bool:
        with suppress(httpx.TransportError):
            return client.get(url).is_success
        return False

    wait_until(is_ok, url)
