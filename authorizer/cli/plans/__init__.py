"""Commands about changes of ACLs before they are made: a plan, and its application."""
