"""Plans: changes of ACLs bound to effective permissions, and the checks before they are applied."""
