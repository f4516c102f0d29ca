"""The job that counts the requests of an authorizer's log."""
