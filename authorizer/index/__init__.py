"""The index: all ACLs of one image, arranged for decisions. `acl_index` draws it."""
