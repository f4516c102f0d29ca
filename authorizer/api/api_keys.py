"""Names of Kafka's request types, as the audit log prints them.

Source: org.apache.kafka.common.protocol.ApiKeys of Kafka 4.3.1 (its enum, run through ``ApiKeys.values()``).
"""

from __future__ import annotations

from typing import Final

# In the order of their keys.
_NAMES: Final = """
    Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown
    OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups
    ListGroups SaslHandshake ApiVersions CreateTopics DeleteTopics DeleteRecords InitProducerId
    OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit
    DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs
    SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken
    DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments
    ListPartitionReassignments OffsetDelete DescribeClientQuotas AlterClientQuotas
    DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch EndQuorumEpoch
    DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot DescribeCluster DescribeProducers
    BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions ListTransactions
    AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe ControllerRegistration
    GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs ListConfigResources DescribeTopicPartitions
    ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter RemoveRaftVoter
    UpdateRaftVoter InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
    ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
    AlterShareGroupOffsets DeleteShareGroupOffsets
"""
#: The name at index n belongs to api key n.
API_KEY_NAMES: Final = tuple(_NAMES.split())


def api_key_name(api_key: int) -> str:
    """The name of an API key, such as ``Produce`` for 0; ``Unknown(n)`` if Kafka 4.3 has none."""
    return API_KEY_NAMES[api_key] if 0 <= api_key < len(API_KEY_NAMES) else f"Unknown({api_key})"
