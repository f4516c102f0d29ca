"""The Spark jobs: snapshots, counts and changes of any number of logs, by one engine.

pyspark is imported below here and nowhere else.
"""
