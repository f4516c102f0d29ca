"""The Spark session of a job, its JVM and its jars."""
