"""Object storage of S3 for Spark: Hadoop's S3A, its jars with their checksums, and its settings.

Users write ``s3://`` for all paths. The snapshot store uses s3fs, Spark uses Hadoop; both take the endpoint,
the region and the credentials that s3fs finds (``AWS_...``, profiles, fsspec's configuration). S3A
cannot refuse a second writer (docs/adr/0019-s3-one-writer.md), so a job claims its checkpoint
(running/claim.py).

The jars are downloaded once, when Spark uses an s3:// path first, into ``~/.cache/aclog/s3a-jars/<version>``,
or are in the directory that ACLOG_S3A_JARS names. They are the 14 MB of the AWS SDK that S3A uses; Hadoop
itself names a bundle of all services (690 MB). What they need besides is in pyspark.
``python -m snapshot.jobs.session.s3a`` downloads them without a job.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import fsspec

from snapshot.jobs.session.ivy import Jar
from snapshot.jobs.session.jars import PinnedJars, exit_code_of, has_class
from snapshot.store.object_store import client_options, is_s3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

#: The release of Hadoop in jars.SPARK_VERSION.
HADOOP_VERSION: Final = "3.5.0"
#: Its managers of checkpoint files fit Spark 4.2, for which there is no release.
CLOUD_VERSION: Final = "4.1.2"
#: The AWS SDK that hadoop-aws names.
SDK_VERSION: Final = "2.35.4"
#: The package for --packages, with which Spark downloads S3A.
PACKAGE: Final = f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}"
DIRECTORY_VARIABLE: Final = "ACLOG_S3A_JARS"
_SDK: Final[Mapping[str, str]] = {
    "annotations": "6f36bd87155d1dd85d6efbdd29e532e3759a022211feb71affebee1aa34f04b8",
    "apache-client": "6eade21b482724ed0a4613eaa95d20e47e7a81304bd28538ac427fece94a7740",
    "arns": "c63cc29f76a8527e9e10b621703163df541dc5cb315508dc2898518602c75380",
    "auth": "6b601323004833fb4a857ffc95db4795e0e6320eb93e64b1246c655c9ff04994",
    "aws-core": "fdb5fc8f1a48d97fa7d04d3460fb42f6973c7b1bbe1b9d317871ef0162bcb623",
    "aws-query-protocol": "9b4cf9b78977cc9f5b4ceae9c435dedbde6a055a0f8d9e053eaca945715e2a9f",
    "aws-xml-protocol": "4f59176da2522c357b1993e4a890fde529f12f365795ef86269bde4a3984cd0d",
    "checksums": "94464af4374d08ecf33ca06ed4d03e1615529e547726e26b56abacefbeee7948",
    "checksums-spi": "88b5af85ac2d3c862be8856be4e683ab31932e4a5a3c1c45af864d2671ac7cec",
    "crt-core": "2c6aaa17bf9ccbb9d962dded4351e73decb197e3c5519970e0dae17e05d3df62",
    "endpoints-spi": "ef02441bda916959b8341290b49c68cc35538e1ad6f8629b75d8334dc6653e00",
    "http-auth": "3ec933a06e751a05e195eb3589209e23c44e1897263b6fcae34ef4cc63cd4491",
    "http-auth-aws": "c4acb92fdec90bfd9b67bfab8e41b69cd152c03cacc10281a8ab464791856e01",
    "http-auth-aws-eventstream": "709107552f302be3fa9e05969a3779f5c0f07fb809e6fa1fa571a6f0c61326dd",
    "http-auth-spi": "4495463406bb98eb136f2c3f3604ed5f08ec9974ebc3f34f2121b20679f61d5c",
    "http-client-spi": "728be89b2a07b595edb0adee3a2cbbbdd4cb1f4caddde0d08c3979fe2620dedb",
    "identity-spi": "188d73db7d4e2361654bc3c5a1b3eaeb445d0500fb012cc46c5d67975adf97bf",
    "json-utils": "80d67a6bb3e7eb49c7d4b6e4ba4c1463ed7da0192b795158328602dc131c5ecc",
    "metrics-spi": "c2a4ee90a21081317e2e6eba0c414d05d3d518aed2f86b1c1710a7367b450487",
    "netty-nio-client": "b82f8b33e5c85273a47da45ede884d7ccb31c9c2f69e6910a76c5c48fa1275dc",
    "profiles": "0f4ef7ca72ccd80dd49ebeaf7f3ce60a7d7a00da59a91aeeae6e91052bbacbd8",
    "protocol-core": "f2532eca6ba2142fe4821d5decb03c83a3e15dc8bfae2240e7f2efa75f9868b5",
    "regions": "77eae87b34ce96ecdf916a9bc06684dbeafcb6d38ef0513285fa5d5d6d41f5ca",
    "retries": "f99fb2f8c66d7e859955b3542d3af8f9de8f23a21d5e3250f0f2c5f18487e469",
    "retries-spi": "668638751d059c527ddd41ffa4dcebe36a7c14860ed56776df09b861c14dc7dd",
    "s3": "f23532c5223be9b0bfec0d72837ed09ed34dbdf8022818ba145b20076a78b4bc",
    "s3-transfer-manager": "0eec78870b3d0abc509a847072cf963cb2ae6e360dc6161a9449b3398c470476",
    "sdk-core": "fa559a4ce598852f3519c8f3b36250f583b0858a7611eedc4a81997778c617f4",
    "sts": "8d0f7816d3f96e3f00249f5d054d926e939a104bcf9ef57676ee0b16c59684d2",
    "third-party-jackson-core": "32f4252c6c2df8f3a4aff885e6dc77024ad6b4cb48455d07b461ec30c41643ea",
    "utils": "642aeef536a071668f0b772f05f9d21573abf6955e7b6fb5fdb893760cca10e8",
    "utils-lite": "e004806def5e22ec98edc48a133ff3317166255e1ba29d93d129e9fdfa64a7be",
}
JARS: Final = (
    Jar(
        f"org/apache/hadoop/hadoop-aws/{HADOOP_VERSION}/hadoop-aws-{HADOOP_VERSION}.jar",
        "66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa",
    ),
    Jar(
        f"org/apache/spark/spark-hadoop-cloud_2.13/{CLOUD_VERSION}/spark-hadoop-cloud_2.13-{CLOUD_VERSION}.jar",
        "672d7d872f434cb7fe1c90f7edcd19b1e8c67a335a578288426fbd4db5096915",
    ),
    Jar(
        "software/amazon/s3/analyticsaccelerator/analyticsaccelerator-s3/1.3.1/"
        "analyticsaccelerator-s3-1.3.1.jar",
        "4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e",
    ),
    Jar(
        "software/amazon/eventstream/eventstream/1.0.1/eventstream-1.0.1.jar",
        "0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822",
    ),
    Jar(
        "org/reactivestreams/reactive-streams/1.0.4/reactive-streams-1.0.4.jar",
        "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28",
    ),
    *(
        Jar(f"software/amazon/awssdk/{name}/{SDK_VERSION}/{name}-{SDK_VERSION}.jar", sha256)
        for name, sha256 in _SDK.items()
    ),
)
S3A: Final = PinnedJars(
    "Hadoop's S3A",
    HADOOP_VERSION,
    "Only checkpoints, tables of Delta Lake and queries on s3:// paths",
    "s3a-jars",
    DIRECTORY_VARIABLE,
    PACKAGE,
    "hadoop-aws",
    JARS,
)

#: S3A's main class.
FILE_SYSTEM: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_S3_IMPLEMENTATION: Final = "fs.s3.impl"
_CHECKPOINT_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_PUT_MANAGER: Final = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
_LOCAL_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
#: Of the settings that are not the user's.
_SOURCE: Final = "aclog"
_AMAZON: Final = re.compile(r"https://s3(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?/?")
#: Given credentials first, then those that botocore finds, too.
_CREDENTIALS: Final = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
)
_KEYS: Final = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")
_KEY_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_SETTINGS: Final[Mapping[str, str]] = {
    _S3_IMPLEMENTATION: FILE_SYSTEM,
    "fs.s3a.aws.credentials.provider": _CREDENTIALS,
    # Files are small and read once: no prefetching.
    "fs.s3a.input.stream.type": "classic",
}


def configure_s3a(spark: SparkSession) -> None:
    """Let Hadoop use S3 as the snapshot store does; settings of the user (``fs.s3a.*``) have priority."""
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    for key, value in {**_SETTINGS, **_client_settings()}.items():
        sources = hadoop.getPropertySources(key)
        # Spark itself takes some of the AWS_ variables, but not AWS_ENDPOINT_URL_S3.
        if sources is None or sources[-1] in ("core-default.xml", _SOURCE) or "AWS_" in sources[-1]:
            hadoop.set(key, value, _SOURCE)


def checkpoint_session(spark: SparkSession, checkpoint: str) -> tuple[SparkSession, str]:
    """The session that writes a checkpoint, and the checkpoint's URL for it.

    On S3 each file is one put, if the manager for that is there; Spark's own manager puts, copies and removes
    a temporary object. On a local disk Spark's own manager runs `readlink` 16 times in each batch, and its
    other one, which also renames, never.
    """
    is_own = spark.conf.get(_CHECKPOINT_MANAGER, None) not in (None, _LOCAL_MANAGER)
    if checkpoint.startswith(("file:", "/")):
        if not is_own:
            spark.conf.set(_CHECKPOINT_MANAGER, _LOCAL_MANAGER)
        return spark, checkpoint
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    if not is_s3(checkpoint) or hadoop.get(_S3_IMPLEMENTATION) != FILE_SYSTEM:
        return spark, checkpoint
    # The manager uses Hadoop's FileContext, which knows S3A by this scheme only.
    url = f"s3a://{checkpoint.partition('://')[2]}"
    if is_own or not has_class(spark, _PUT_MANAGER):
        return spark, url
    # A session apart: checkpoints of other jobs may be on another file system.
    spark = spark.newSession()
    spark.conf.set(_CHECKPOINT_MANAGER, _PUT_MANAGER)
    return spark, url


def _client_settings() -> dict[str, str]:
    """The endpoint, region and credentials of s3fs, which follows botocore, as settings of S3A."""
    try:
        files: Any = fsspec.filesystem("s3", **client_options("s3://"))
    except ImportError:
        return {}  # without s3fs Hadoop follows its own rules
    files.connect()
    meta = files.s3.meta
    settings = {}
    if meta.region_name and meta.region_name != "aws-global":
        settings["fs.s3a.endpoint.region"] = meta.region_name
    if not _AMAZON.fullmatch(meta.endpoint_url):
        settings["fs.s3a.endpoint"] = meta.endpoint_url
        is_virtual = (meta.config.s3 or {}).get("addressing_style") == "virtual"
        settings["fs.s3a.path.style.access"] = str(not is_virtual).lower()
    keys: tuple[str | None, ...] = (files.key, files.secret, files.token)
    if not all(keys[:2]):
        # A notebook may set them after its JVM was started.
        keys = tuple(map(os.environ.get, _KEY_VARIABLES))
    if all(keys[:2]):
        settings |= {name: key for name, key in zip(_KEYS, keys, strict=True) if key}
    if files.anon:
        settings["fs.s3a.aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
        )
    return settings


if __name__ == "__main__":
    sys.exit(exit_code_of(S3A.print_directory))
