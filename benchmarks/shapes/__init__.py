"""The shapes that workloads have: how their ACLs and questions are drawn."""
