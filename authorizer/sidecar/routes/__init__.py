"""Endpoints of the sidecar: AuthZEN, Kafka's questions, ACLs, plans, changes, state."""
