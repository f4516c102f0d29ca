"""Karapace, the schema registry, answering by Kafka's ACLs: ``python -m examples.karapace``.

Karapace has users and rules of its own in ``registry_authfile``. Here the users stay, and what they may do is
asked of a sidecar: no second list of rules beside the cluster's. Karapace is not on the package index, so it
is not among what the tests install; run this where it is installed, with aclog (docs/client.md).
"""
