"""``aclog report``: one state of the ACLs, and what led to it, as one file for who audits it."""
