"""The core of consumer groups (KIP-848): the coordinator assigns partitions, and members reconcile to them.

A heartbeat of a member is a command of `heartbeat`. It may increment the *group epoch* (the subscriptions or
the metadata of the topics changed), compute a new *target assignment* for that epoch, and bring the member
one step nearer to its target (`reconciliation`): first the member revokes the partitions that its target
lacks, then it advances to the epoch of the target and gets the partitions that no other member owns any more.

Source: KIP-848; org.apache.kafka.coordinator.group.modern of Apache Kafka 4.3.1.
"""
