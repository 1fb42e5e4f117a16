"""The objects that the handlers of CreateTopics, CreatePartitions and DeleteTopics use.

They change topics within the quota of the client, and only those topics that the client may change.
"""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.controller.settings import ControllerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChangeServices:
    """The metadata store, the settings and the checks for changes of topics."""

    store: MetadataStore
    settings: ControllerSettings
    quotas: MutationQuotas
    slices: Slices
    authorizer: Authorizer
