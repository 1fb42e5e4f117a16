"""Fast reads of remote segments: caches with bounded sizes, one GET for all readers of a chunk, read-ahead.

    SegmentStream -> ChunkCache -> memory or disk
                         `-> ranged GET of adjacent chunks -> undo the transform

Config keys are Aiven's (fetch.chunk.cache.*, fetch.manifest.cache.*, fetch.indexes.cache.*).
"""
