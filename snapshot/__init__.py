"""ACLs at an offset: the image, the changes on it, and how an image is stored and built in bulk.

Imports only `records`; pyspark is imported in `snapshot.jobs` and nowhere else.
"""
