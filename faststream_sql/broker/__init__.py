"""The FastStream side: the only layer that knows FastStream."""
