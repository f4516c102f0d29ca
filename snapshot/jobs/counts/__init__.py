"""The counts job: numbers of ACLs by kind, over time."""
