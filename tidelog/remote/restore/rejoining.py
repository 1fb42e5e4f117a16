"""A restored topic as of a time that was written to since: references to its source, and own segments. Pure.

    source     0-49   50-119   120-189        150 is the first offset after the time
    own               120-149  150-230        copied when the topic was created, and by its leaders since then
    restored   0-49   50-119   120-149   150-230

The leader epochs and producers are those of the newest segment: usually one of its own.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.protocol.ids import Offset
from tidelog.remote.restore.plan import SurveyedPartition
from tidelog.remote.restore.time_travel import TravelledPartition
from tidelog.remote.tasks.recovered_log import log_position


def rejoined(
    by_reference: TravelledPartition, own: SurveyedPartition | None, start_offset: Offset
) -> TravelledPartition:
    """Return a partition with the segments `by_reference` and its `own`, which are in the bucket already.

    Segments of the source that end before `start_offset`, the start of the log, are left out: the topic had
    deleted its references to them.
    """
    referenced = by_reference.surveyed
    own = own or replace(referenced, segments=(), newest=None, unusable=(), is_damaged=False)
    own_ids = {each.remote_log_segment_id.id for each in own.segments}
    added = tuple(
        each
        for each in referenced.segments
        if each.remote_log_segment_id.id not in own_ids and each.end_offset >= start_offset
    )
    added_ids = {each.remote_log_segment_id.id for each in added}
    is_own_newest = own.newest is not None and (
        referenced.newest is None or log_position(own.newest) >= log_position(referenced.newest)
    )
    end = own if is_own_newest else referenced
    return TravelledPartition(
        replace(
            own,
            segments=own.segments + added,
            newest=end.newest if own.segments or added else None,
            checkpoint=end.checkpoint,
            producers=end.producers,
            unusable=(*own.unusable, *referenced.unusable),
            is_damaged=own.is_damaged or referenced.is_damaged,
            later_manifests=(*own.later_manifests, *referenced.later_manifests),
        ),
        tuple(each for each in by_reference.tails if each.metadata.remote_log_segment_id.id in added_ids),
    )
