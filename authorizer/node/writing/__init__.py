"""Writing: ACLs are created and removed through the log. `acl_mutator` is the way in."""
