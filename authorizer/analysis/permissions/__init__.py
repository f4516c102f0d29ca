"""What a set of ACLs permits: effective permissions, differences, classes of requests and witnesses."""
