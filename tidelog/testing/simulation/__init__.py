"""Clusters in virtual time: brokers, clients, network and disks in one process, replayed from one seed."""
