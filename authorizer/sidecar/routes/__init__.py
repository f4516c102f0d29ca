"""Endpoints of the sidecar: AuthZEN, Kafka's queries, ACLs, plans, changes, state."""
