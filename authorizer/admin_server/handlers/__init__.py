"""The answers to Kafka's requests, a file for each subject."""
