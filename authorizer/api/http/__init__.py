"""What both ends of the HTTP API share."""
