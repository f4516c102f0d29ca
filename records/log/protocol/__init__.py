"""Kafka's own protocol, as kraft:// and describe:// logs use it.

settings      security and timeouts              sasl, oauth   client side of authentication
requests      encoded requests                   responses     decoded responses
answers       their values                       errors       Kafka's errors -> LogError
connection    one controller or broker, over TCP or TLS
brokers       any broker of a cluster
"""
