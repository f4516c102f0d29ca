"""Exact answers about sets of ACLs: effective permissions, differences, removable ACLs, plans, history.

No solver is needed. Literals and prefixes form a tree, so names fall into finitely many classes with equal
answers. Hosts and principals do, too: those that are listed, and all others. Everything here is pure and
gives the answers of `authorizer.engine.decisions`.
"""
