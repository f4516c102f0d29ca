"""Codecs of metadata records: KRaft frames, Avro single-object encoding, kafka-dump-log's JSON."""
