"""Settings of Kafka's Java clients (client.properties), translated for aclog's own clients."""
