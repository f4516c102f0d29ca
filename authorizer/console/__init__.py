"""The console: a web page that shows and changes ACLs, and the routes behind it.

The page's files contain no ACLs and are served to everyone who reaches the listener. Every request for data
is authorized: callers without Describe on the cluster see only their own decisions.
"""
