"""Questions about sets of ACLs, answered exactly: what a set means, and where two sets answer differently.

No solver is needed. Literals and prefixes form a tree, so names fall into finitely many classes, and all
names of a class are decided alike; so do hosts and principals: those that are listed, and all others.
Everything here is pure, and follows `authorizer.engine.decisions` in every answer.
"""
