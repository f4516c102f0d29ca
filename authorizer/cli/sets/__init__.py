"""Commands about sets of ACLs: diff, lint, test, who-can and what-can."""
