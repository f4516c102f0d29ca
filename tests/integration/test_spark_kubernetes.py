"""The pods that Spark creates for the spark-submit of docs/how-to/spark.md, by Kubernetes' schema.

Spark's own classes read the command and build the pods. No API server is asked, and no pod runs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
from pyspark.sql import SparkSession

from support.cli_commands import parsed_command
from support.data import TESTS

pytestmark = [pytest.mark.slow, pytest.mark.integration]

PAGE = (TESTS.parent / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8")
SCHEMA = json.loads((TESTS / "data" / "kubernetes" / "v1.37.0.json").read_text(encoding="utf-8"))
POD_SPEC = {**SCHEMA, "$ref": "#/$defs/io.k8s.api.core.v1.PodSpec"}


@pytest.fixture(scope="module")
def pods(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """The specs of the driver's and an executor's pod."""
    assert spark._jvm is not None
    jvm: Any = spark._jvm
    apache = jvm.org.apache.spark
    command = re.search(r"(?ms)^    spark-submit (--master k8s:.*?)\n\n", PAGE)
    assert command
    words = shlex.split(command[1].replace("\\\n", " "))
    none = jvm.scala.Option.empty()
    arguments = apache.deploy.SparkSubmitArguments(
        apache.api.python.PythonUtils.toSeq(words), jvm.scala.sys.package.env()
    )
    prepared = apache.deploy.SparkSubmit().prepareSubmitEnvironment(arguments, none)
    conf, given = prepared._3(), [prepared._1().apply(at) for at in range(prepared._1().size())]
    conf.remove("spark.jars")  # of the tests' session, by system properties
    submitted = apache.deploy.k8s.submit.ClientArguments.fromCommandLineArgs(_array(spark, given))
    confs = apache.deploy.k8s.KubernetesConf
    driver = apache.deploy.k8s.submit.KubernetesDriverBuilder().buildFromFeatures(
        confs.createDriverConf(
            conf, "app-1", submitted.mainAppResource(), submitted.mainClass(), submitted.driverArgs(), none
        ),
        None,
    )
    profiles = getattr(getattr(apache.resource, "ResourceProfile$"), "MODULE$")
    executor = apache.scheduler.cluster.k8s.KubernetesExecutorBuilder().buildFromFeatures(
        confs.createExecutorConf(conf, "1", "app-1", none, 0),
        apache.SparkEnv.get().securityManager(),
        None,
        profiles.getOrCreateDefaultProfile(conf),
    )
    as_json = jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson
    found = {}
    for name, pod in (("driver", driver.pod()), ("executor", executor.pod())):
        spec = json.loads(as_json(pod.pod()))["spec"]
        found[name] = {**spec, "containers": [json.loads(as_json(pod.container()))]}
    return found


def _array(spark: SparkSession, words: Sequence[str]) -> Any:
    """An array of Java."""
    gateway: Any = spark.sparkContext._gateway
    found = gateway.new_array(gateway.jvm.java.lang.String, len(words))
    for at, word in enumerate(words):
        found[at] = word
    return found


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_pods_match_schema_and_have_the_secrets(pods: dict[str, dict[str, Any]], role: str) -> None:
    """Each pod has the image, the configuration as files and the object store's key."""
    pod = pods[role]
    assert [error.message for error in jsonschema.Draft202012Validator(POD_SPEC).iter_errors(pod)] == []
    (container,) = pod["containers"]
    assert container["image"] == "REGISTRY/aclog-spark:0.1.0"
    volumes = {each["name"]: each for each in pod["volumes"]}
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == "/etc/aclog"]
    assert volumes[mount["name"]]["secret"]["secretName"] == "aclog-kafka"
    keys = {each["name"]: each["valueFrom"] for each in container["env"] if "AWS" in each["name"]}
    assert {name: value["secretKeyRef"] for name, value in keys.items()} == {
        "AWS_ACCESS_KEY_ID": {"name": "aclog-s3", "key": "id"},
        "AWS_SECRET_ACCESS_KEY": {"name": "aclog-s3", "key": "secret"},
    }


def test_driver_runs_the_job(pods: dict[str, dict[str, Any]]) -> None:
    """By the service account that may create executors, and with memory for its Python processes."""
    pod = pods["driver"]
    (container,) = pod["containers"]
    assert pod["serviceAccountName"] == "spark"
    assert container["resources"]["limits"]["memory"] == "2048Mi"
    at = container["args"].index("local:///opt/aclog/aclog.py")
    job = container["args"][at + 1 :]
    assert job[:2] == ["spark", "changes"]
    # The configuration exists in the container only.
    config = job.index("--config")
    parsed_command(job[:config] + job[config + 2 :])
