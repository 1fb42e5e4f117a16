"""Pipelines over topics, each a command `tidelog spark JOB`.

    archive      a topic, or a span of time of it, as Parquet files; continues where it stopped
    stats        keys, sizes, times and skew of topics
    transform    a topic into another one by SQL
    verify       every byte of the tier, a task of Spark for each group of segments

The decisions of a job are in modules without Spark (`*_plan`, `*_report`, `times`, `failures`). The others
are its shell, and import pyspark where they use it.
"""
