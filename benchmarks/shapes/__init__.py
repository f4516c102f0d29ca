"""The shapes of workloads: how their ACLs and requests are drawn."""
