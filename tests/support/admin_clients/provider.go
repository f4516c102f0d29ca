package main

import (
	"context"
	"errors"

	"github.com/IBM/sarama"
)

// provider sends what Mongey/kafka sends: requests of version 1, with Sarama set to Kafka 2.7, to the controller.
type provider struct {
	client sarama.Client
}

func newProvider(address string, as login) client {
	config := as.sarama(sarama.V2_7_0_0)
	config.ClientID = "terraform-provider-kafka"
	config.Metadata.AllowAutoTopicCreation = false
	opened, err := sarama.NewClient([]string{address}, config)
	must(err)
	for _, broker := range opened.Brokers() {
		if err := broker.Open(config); err != nil && !errors.Is(err, sarama.ErrAlreadyConnected) {
			must(err)
		}
		_, err := broker.ApiVersions(&sarama.ApiVersionsRequest{})
		must(err)
		must(broker.Close())
	}
	_, err = opened.Topics()
	must(err)
	return provider{opened}
}

func (p provider) execute(_ context.Context, wanted request) (answer, error) {
	broker, err := p.client.Controller()
	if err != nil {
		return answer{}, err
	}
	switch wanted.Do {
	case "create":
		_, err := broker.CreateAcls(&sarama.CreateAclsRequest{
			Version: 1, AclCreations: []*sarama.AclCreation{creationOf(wanted.Acl)},
		})
		return answer{}, err
	case "delete":
		if _, err := listed(broker); err != nil {
			return answer{}, err
		}
		filter := filterOf(wanted.Acl)
		deleted, err := broker.DeleteAcls(&sarama.DeleteAclsRequest{Version: 1, Filters: []*sarama.AclFilter{&filter}})
		if err != nil {
			return answer{}, err
		}
		found := answer{}
		for _, each := range deleted.FilterResponses {
			if !errors.Is(each.Err, sarama.ErrNoError) {
				return found, each.Err
			}
			for _, match := range each.MatchingAcls {
				found.addSarama(match.Resource, match.Acl)
			}
		}
		return found, nil
	case "describe":
		return listed(broker)
	}
	return answer{}, errors.New("unknown request " + wanted.Do)
}

// listed returns the ACLs of the four resource types that the provider knows.
func listed(broker *sarama.Broker) (answer, error) {
	found := answer{}
	for _, kind := range []sarama.AclResourceType{
		sarama.AclResourceTopic, sarama.AclResourceGroup, sarama.AclResourceCluster,
		sarama.AclResourceTransactionalID,
	} {
		some, err := describe(broker, &sarama.DescribeAclsRequest{Version: 1, AclFilter: sarama.AclFilter{
			ResourceType:              kind,
			ResourcePatternTypeFilter: sarama.AclPatternAny,
			PermissionType:            sarama.AclPermissionAny,
			Operation:                 sarama.AclOperationAny,
		}})
		if err != nil {
			return found, err
		}
		found.Acls = append(found.Acls, some.Acls...)
	}
	return found, nil
}

func describe(broker *sarama.Broker, asked *sarama.DescribeAclsRequest) (answer, error) {
	found := answer{}
	response, err := broker.DescribeAcls(asked)
	if err != nil {
		return found, err
	}
	if !errors.Is(response.Err, sarama.ErrNoError) {
		return found, response.Err
	}
	for _, resource := range response.ResourceAcls {
		found.addListed([]sarama.ResourceAcls{*resource})
	}
	return found, nil
}
