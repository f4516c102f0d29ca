"""What the tests share: fakes, strategies, real Kafka. Imported as `support.x`; tests/ is on the path."""
