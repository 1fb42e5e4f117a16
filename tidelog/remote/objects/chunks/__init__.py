"""Reading segments of the tier fast: caches bounded in bytes, one GET for all who want the same, read-ahead.

    SegmentStream -> ChunkCache -> memory or disk
                         `-> ranged GET of adjacent chunks -> undo the transform

Config names are Aiven's (fetch.chunk.cache.*, fetch.manifest.cache.*, fetch.indexes.cache.*).
"""
