"""Plan of a micro-batch: where it begins and ends in each log, and onto which stored state it goes."""
