"""The core of streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

The first member sends the *topology* of the application: its subtopologies, and the topics that each reads
and writes. The coordinator decides the partition counts of the internal topics (`topic_configuration`), and
lets them be created. A *task* is one partition of one subtopology. `sticky_assignor` assigns active and
standby tasks to members, and `reconciliation` brings each member to its target in steps.

Source: KIP-1071; org.apache.kafka.coordinator.group.streams of Apache Kafka 4.3.1.
"""
