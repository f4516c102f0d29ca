"""Sources and targets of ACLs: logs, snapshots, nodes, clusters, plans and files."""
