"""The interposer: a proxy that understands frames, so that a fault can strike one request or one reply.

Toxiproxy breaks byte streams at random moments. Which request or reply was lost decides whether a promise holds, and
only a proxy that reads the protocol can choose it. It stands before any cluster: it rewrites the addresses that brokers
give to their clients, so that a client never leaves it. It does nothing that a network or a dying peer cannot do:
it closes connections and holds bytes back; it never removes or reorders a frame.

`protocols` says what a protocol's module must do; `kafka` and `pulsar` do it, and `speeches` lists them. `rules`
decide, `proxies` act, and everything seen is in the `conversations`.
"""
