"""The client of Kafka's protocol.

settings             security and timeouts           sasl, oauth      client side of authentication
requests             encoded requests                responses        decoded responses
entity_reader        entities from bytes, by kio's schemas
response_values      values of responses             cluster_errors   Kafka's errors -> LogError
connection           one controller or broker, over TCP or TLS
brokers              any broker of a cluster         cluster_acls     changes of a cluster's ACLs
transaction_queries  requests about producers and transactions (KIP-664)
"""
