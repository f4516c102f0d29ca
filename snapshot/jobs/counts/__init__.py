"""The counts job: how many ACLs of each kind there are, over time."""
