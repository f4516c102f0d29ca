"""The Spark session of a job, its JVM, and the jars that it needs."""
