"""Share groups (KIP-932): members share the partitions of their topics, and no member owns one.

The coordinator assigns to each member the partitions from which it should fetch. It initializes the state of
each partition at the share coordinator first, through `tidelog.broker.coordinators.share.persister`, and
assigns only initialized partitions.
"""
