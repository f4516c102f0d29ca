package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/IBM/sarama"
)

type clusterAdmin struct {
	client sarama.Client
	admin  sarama.ClusterAdmin
}

func newSarama(address string, as login) client {
	opened, err := sarama.NewClient([]string{address}, as.sarama(sarama.MaxVersion))
	must(err)
	admin, err := sarama.NewClusterAdminFromClient(opened)
	must(err)
	return clusterAdmin{opened, admin}
}

func (c clusterAdmin) execute(_ context.Context, wanted request) (answer, error) {
	found := answer{Described: map[string]json.RawMessage{}}
	switch wanted.Do {
	case "create":
		creation := creationOf(wanted.Acl)
		return found, c.admin.CreateACL(creation.Resource, creation.Acl)
	case "delete":
		deleted, err := c.admin.DeleteACL(filterOf(wanted.Acl), false)
		for _, each := range deleted {
			found.addSarama(each.Resource, each.Acl)
		}
		return found, err
	case "describe":
		listed, err := c.admin.ListAcls(filterOf(wanted.Acl))
		found.addListed(listed)
		return found, err
	case "metadata":
		topics, err := c.admin.DescribeTopics(wanted.Names)
		for _, topic := range topics {
			found.Described[topic.Name] = described([]any{topic.Uuid, topic.Err})
		}
		return found, err
	case "cluster":
		brokers, controller, err := c.admin.DescribeCluster()
		found.Described["cluster"] = described([]any{len(brokers), controller >= 0})
		return found, err
	case "operations":
		broker, err := c.client.Controller()
		if err != nil {
			return found, err
		}
		cluster := sarama.NewDescribeClusterRequest(sarama.MaxVersion)
		cluster.IncludeClusterAuthorizedOperations = true
		ofCluster, err := broker.DescribeCluster(cluster)
		if err != nil {
			return found, err
		}
		metadata := sarama.NewMetadataRequest(sarama.MaxVersion, wanted.Names)
		metadata.IncludeTopicAuthorizedOperations = true
		ofTopics, err := broker.GetMetadata(metadata)
		if err != nil {
			return found, err
		}
		found.Described["cluster"] = described([]any{ofCluster.ClusterID, ofCluster.ClusterAuthorizedOperations})
		for _, topic := range ofTopics.Topics {
			found.Described[topic.Name] = described([]any{topic.TopicAuthorizedOperations, topic.Err})
		}
		return found, err
	case "groups":
		groups, err := c.admin.DescribeConsumerGroups(wanted.Names)
		for _, group := range groups {
			found.Described[group.GroupId] = described([]any{group.State, group.AuthorizedOperations, group.Err})
		}
		return found, err
	}
	return found, errors.New("unknown request " + wanted.Do)
}

func creationOf(wanted acl) *sarama.AclCreation {
	return &sarama.AclCreation{
		Resource: sarama.Resource{
			ResourceType:        sarama.AclResourceType(wanted.ResourceType),
			ResourceName:        text(wanted.ResourceName),
			ResourcePatternType: sarama.AclResourcePatternType(wanted.PatternType),
		},
		Acl: sarama.Acl{
			Principal:      text(wanted.Principal),
			Host:           text(wanted.Host),
			Operation:      sarama.AclOperation(wanted.Operation),
			PermissionType: sarama.AclPermissionType(wanted.Permission),
		},
	}
}

func filterOf(wanted acl) sarama.AclFilter {
	return sarama.AclFilter{
		ResourceType:              sarama.AclResourceType(wanted.ResourceType),
		ResourceName:              wanted.ResourceName,
		ResourcePatternTypeFilter: sarama.AclResourcePatternType(wanted.PatternType),
		Principal:                 wanted.Principal,
		Host:                      wanted.Host,
		Operation:                 sarama.AclOperation(wanted.Operation),
		PermissionType:            sarama.AclPermissionType(wanted.Permission),
	}
}

func (a *answer) addListed(listed []sarama.ResourceAcls) {
	for _, resource := range listed {
		for _, each := range resource.Acls {
			a.addSarama(resource.Resource, *each)
		}
	}
}

func (a *answer) addSarama(resource sarama.Resource, found sarama.Acl) {
	a.Acls = append(a.Acls, acl{
		int8(resource.ResourceType), &resource.ResourceName, int8(resource.ResourcePatternType),
		&found.Principal, &found.Host, int8(found.Operation), int8(found.PermissionType),
	})
}
