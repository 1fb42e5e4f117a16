"""The assignors of the coordinator: functions that compute the target assignment of a group.

As in Kafka 4.3, they do not use racks; the racks of replicas only trigger a new assignment.
"""
