"""The metadata quorum: KRaft as a state machine that takes events and returns effects.

`quorum.Quorum` is the state machine. Its caller performs the effects in order (`effects`) and passes it
`events`. It reads and writes the log through the port `log.RaftLog`. `replica.Replica` composes the parts
that own the state. The other modules handle one side of the protocol each: `elections`, `follower`,
`fetch_service`, `leader`, `epoch_requests` and `voter_changes`.

Source: KIP-595 (KRaft), KIP-630 (snapshots), KIP-853 (dynamic voters), KIP-996 (pre-vote).
"""
