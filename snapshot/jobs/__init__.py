"""Spark jobs: snapshots, counts and changes of any number of logs. The only package that imports pyspark."""
