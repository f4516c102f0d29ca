"""Kafka's own protocol, as far as clusters are asked in it: by kraft:// logs and describe:// ones.

What belongs to whom, from the bytes up:

    settings      security and time-outs             sasl        what is said to prove who we are
    requests      what is asked, as bytes            responses   what is answered, from bytes
    answers       the same in our terms              failure     Kafka's errors -> LogError
    connection    one controller or broker, over TCP or TLS
"""
