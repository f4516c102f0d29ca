"""Commands about sets of ACLs: what they mean, and where two of them answer differently."""
