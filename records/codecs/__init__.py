"""Codecs between metadata records and bytes: KRaft frames, Avro single-object, kafka-dump-log's JSON."""
