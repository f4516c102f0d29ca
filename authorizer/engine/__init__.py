"""Engine: the index of ACLs, decisions and their explanation. Pure: no clock, thread, socket or logger."""
