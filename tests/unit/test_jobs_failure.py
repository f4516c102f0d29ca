"""The error of a failure inside Spark: the text of its cause."""

from __future__ import annotations

import pytest

from records.errors import LogUnreachableError
from snapshot.errors import SparkBusyError
from snapshot.jobs.running.failure import job_failure

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/worker.py", line 3602, in main
    process()
records.errors.RecordError: the first one

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/decode.py", line 48, in decode_batches
    yield from logs[whose].decode(part)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
records.errors.UnsupportedVersionError: version 9 is not known (in the log of cluster c-1, offset 5)
"""
IN_JAVA = f"""Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure:
Lost task 0.0 in stage 3.0: org.apache.spark.api.python.PythonException: {WORKER}
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:645)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.api.python.PythonException: lost
"""
IN_A_SOURCE = """[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed: Traceback (most recent call last):
  File "/x/python_streaming_source_runner.py", line 184, in main
    end = reader.latestOffset(start, limit)
records.errors.LogNotFoundError: file:/logs/a: there is no log
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = b992102a, runId = c96848a5]
"""
OF_KAFKA = """org.apache.spark.sql.kafka010.KafkaIllegalStateException: Data may be lost. SQLSTATE: XXKST
\tat org.apache.spark.sql.kafka010.KafkaExceptions$.partitionsOffsetChanged(KafkaExceptions.scala:1)
"""
THROUGH_PY4J = """An error occurred while calling o410.collectToPython.
: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are \
not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [4, 16) for topic partition acls-0
with consumer group aclog-spark-1-executor.
\tat org.apache.spark.sql.kafka010.KafkaExceptions$.couldNotReadOffsetRange(KafkaExceptions.scala:94)
Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out of range
"""
LOST = (
    "Some data may have been lost because they are not available in Kafka any more: "
    "Could not read records in offset [4, 16) for topic partition acls-0"
)
OF_JAVA = "An error occurred while calling o1.collect.\n: java.lang.Exception: no\n\tat java.x(X.java:1)"
UNKNOWN = "version 9 is not known (in the log of cluster c-1, offset 5)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WORKER, UNKNOWN),
        (IN_JAVA, UNKNOWN),
        (IN_A_SOURCE, "file:/logs/a: there is no log"),
        (OF_KAFKA, "Data may be lost."),
        (THROUGH_PY4J, LOST),
        (OF_JAVA, "no"),
        ("something short", "something short"),
    ],
    ids=["worker", "java", "source", "kafka", "py4j", "java-alone", "plain"],
)
def test_only_the_cause_is_reported(text: str, message: str) -> None:
    """No stack, and no class of an exception."""
    assert str(job_failure(RuntimeError(text))) == message


def test_a_nested_cause_is_found() -> None:
    """A query that ended says only that it did; what it was caused by says why."""
    error = RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted")
    error.__cause__ = RuntimeError(IN_JAVA)
    assert str(job_failure(error)) == UNKNOWN


def test_an_unreachable_cluster_has_its_error() -> None:
    """In any process of Spark."""
    error = job_failure(RuntimeError(IN_A_SOURCE.replace("LogNotFoundError", "LogUnreachableError")))
    assert isinstance(error, LogUnreachableError)
    assert str(error) == "file:/logs/a: there is no log"


def test_a_too_busy_machine_has_its_error() -> None:
    """It is not the log's fault; the text is Spark 4.2's."""
    error = RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted")
    error.__cause__ = RuntimeError(
        "org.apache.spark.SparkException: Python worker failed to connect back.\n"
        "\tat org.apache.spark.api.python.PythonWorkerFactory.create(PythonWorkerFactory.scala:160)"
    )
    assert isinstance(job_failure(error), SparkBusyError)
