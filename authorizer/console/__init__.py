"""The console: a page on a listener where it is switched on, and what it asks.

The page itself says nothing of any ACL, so everyone who reaches the listener gets it. All that it shows it
asks for, and that is guarded like everything else: who may not describe the cluster sees their own answers.
"""
