"""``aclog report``: one state of the ACLs as one file for auditors."""
