"""A message's eight bytes, made another way than the producer makes them: 16 bits of stream, 48 of value."""


def encode(stream: int, value: int) -> bytes:
    return stream.to_bytes(2, "big") + value.to_bytes(6, "big")
