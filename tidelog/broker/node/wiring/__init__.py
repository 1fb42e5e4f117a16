"""Builds the parts of a node; `tidelog.broker.node.node` lists the stages in which they start."""
