"""The clients: producer, consumer, share consumer and admin client, and the parts that they share."""
