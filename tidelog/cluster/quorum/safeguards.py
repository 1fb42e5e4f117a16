"""What keeps the quorum safe or steady, each named so that a test can switch it off and see what breaks."""

from __future__ import annotations

from enum import Enum, unique


@unique
class Safeguard(Enum):
    """One rule of the protocol. All hold in production; `QuorumSettings.disabled` is for tests."""

    PRE_VOTE = "a voter asks for pre-votes before it raises the epoch (KIP-996)"
    PRE_VOTE_REJECTED_WHILE_LEADER_IS_HEARD = "a follower that hears its leader grants no pre-vote (KIP-996)"
    CHECK_QUORUM = "a leader that a majority has not fetched from resigns (KAFKA-15489)"
    VOTE_DURABLE_BEFORE_ANSWER = "epoch and vote are durable before they are told"
    LOG_FLUSHED_BEFORE_ACKNOWLEDGE = "records are durable before a replica counts for them"
    COMMIT_ONLY_OWN_EPOCH = "a leader commits nothing before a record of its own epoch"
    LOG_UP_TO_DATE_FOR_VOTE = "a vote goes only to a log that is not behind the voter's"
    ONE_VOTER_CHANGE_AT_A_TIME = "the voter set changes by one voter, committed before the next change"
    NEVER_TRUNCATE_COMMITTED = "nothing below the high watermark is truncated (KAFKA-12460)"
    ONE_VOTE_PER_EPOCH = "a voter votes for one candidate in an epoch"
    DIRECTORY_ID_CHECKED = "a voter is its id and its directory id (KIP-853)"
