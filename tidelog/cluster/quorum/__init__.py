"""The metadata quorum: KRaft as a state machine that takes events and returns effects.

`quorum.Quorum` is the machine; whoever drives it performs its effects in order (`effects`) and
tells it what happens (`events`). It reads and writes the log through the port `log.RaftLog`.

Source: KIP-595 (KRaft), KIP-630 (snapshots), KIP-853 (dynamic voters), KIP-996 (pre-vote).
"""
