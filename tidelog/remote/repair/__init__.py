"""Repair of damaged remote segments from replicas that still have their records on a local disk.

repair -> replica_records   the records of a segment as one replica has them on its disk
       -> segment_files     the files of a local segment, from these records and the intact small files
"""
