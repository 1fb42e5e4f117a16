"""Fast decoders of Produce and Fetch requests, and encoders of their responses: one object per partition."""
