"""``aclog blame``: the changes of an answer in the history."""
