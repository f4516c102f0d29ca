"""The client of Kafka's protocol."""
