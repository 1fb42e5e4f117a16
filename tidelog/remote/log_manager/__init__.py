"""The RemoteLogManager of KIP-405: what leaves for remote storage, and what is deleted there.

    replica ----> copy_task -------> copy_plan            which sealed segments go, in which order
    (leader)      expiration_task -> expiration_plan      which remote segments go, and where the log starts
    (follower) -> follower_task                           how far the log is remote
    deleted topics -> partition_remover

Plans are pure functions of what a log and the metadata of its remote segments say; `remote_lineage` says
which segments are part of a log. Tasks carry plans out, one step at a time, and look before each step
whether this replica still has the role they were made for. After every step the process may die:
`fault_points` names them all, and tests end it at each.
"""
