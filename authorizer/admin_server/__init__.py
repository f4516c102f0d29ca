"""Kafka's protocol for AdminClients: kafka-acls, Terraform and others ask a node as they ask a broker."""
