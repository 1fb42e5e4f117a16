"""The RemoteLogManager of KIP-405: runs the tasks of the partitions whose replicas this node has.

    leader      copying.task -> copying.plan      which sealed segments are copied next
                expiry.task -> expiry.plan        which remote segments are deleted, where the log starts
    follower    follower_task                     the highest offset in remote storage
    deleted topics -> expiry.partition_remover

Plans are pure functions of a log and of the metadata of its remote segments; `tasks.remote_lineage` decides
which segments belong to a log. Tasks carry out plans step by step. Before each step they check that the
replica still has the role for which they were created. The process may crash after each step:
`tasks.fault_points` lists these points, and tests stop the process at each of them.
"""
