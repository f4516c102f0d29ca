"""Access reviews: unused ACLs, and the narrowest ACLs for the requests that were seen."""
