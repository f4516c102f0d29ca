// Requests to a sidecar through Confluent's Go library, with the calls of its Terraform provider
// (resource_kafka_acl.go, version of the library as there). Usage: confluent-acls URL CLUSTER_ID USER PASSWORD;
// each line of the input is a request, each line of the output its answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	kafkarest "github.com/confluentinc/ccloud-sdk-go-v2/kafkarest/v3"
)

type request struct {
	Do   string                           `json:"do"`
	Acls []kafkarest.CreateAclRequestData `json:"acls"`
}

type answer struct {
	Status int    `json:"status"`
	Value  any    `json:"value"`
	Error  string `json:"error"`
	Model  any    `json:"model"`
}

func main() {
	configuration := kafkarest.NewConfiguration()
	configuration.Servers = kafkarest.ServerConfigurations{{URL: os.Args[1]}}
	client := kafkarest.NewAPIClient(configuration)
	ctx := context.Background()
	if os.Args[4] != "" {
		credentials := kafkarest.BasicAuth{UserName: os.Args[3], Password: os.Args[4]}
		ctx = context.WithValue(ctx, kafkarest.ContextBasicAuth, credentials)
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 16*1024*1024)
	for input.Scan() {
		var wanted request
		if err := json.Unmarshal(input.Bytes(), &wanted); err != nil {
			panic(err)
		}
		value, response, err := execute(ctx, client, os.Args[2], wanted)
		found := answer{Value: value}
		if response != nil {
			found.Status = response.StatusCode
		}
		if err != nil {
			found.Error = err.Error()
			if typed, ok := err.(kafkarest.GenericOpenAPIError); ok {
				found.Model = typed.Model()
			}
		}
		line, err := json.Marshal(found)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}

func execute(
	ctx context.Context, client *kafkarest.APIClient, cluster string, wanted request,
) (any, *http.Response, error) {
	api := client.ACLV3Api
	switch wanted.Do {
	case "cluster":
		return unpacked(client.ClusterV3Api.GetKafkaCluster(ctx, cluster).Execute())
	case "create":
		response, err := api.CreateKafkaAcls(ctx, cluster).CreateAclRequestData(wanted.Acls[0]).Execute()
		return nil, response, err
	case "batch":
		data := kafkarest.CreateAclRequestDataList{Data: wanted.Acls}
		response, err := api.BatchCreateKafkaAcls(ctx, cluster).CreateAclRequestDataList(data).Execute()
		return nil, response, err
	case "list":
		return unpacked(api.GetKafkaAcls(ctx, cluster).Execute())
	}
	acl := wanted.Acls[0]
	if wanted.Do == "read" {
		return unpacked(api.GetKafkaAcls(ctx, cluster).ResourceType(acl.ResourceType).
			ResourceName(acl.ResourceName).PatternType(acl.PatternType).Principal(acl.Principal).
			Host(acl.Host).Operation(acl.Operation).Permission(acl.Permission).Execute())
	}
	return unpacked(api.DeleteKafkaAcls(ctx, cluster).ResourceType(acl.ResourceType).
		ResourceName(acl.ResourceName).PatternType(acl.PatternType).Principal(acl.Principal).
		Host(acl.Host).Operation(acl.Operation).Permission(acl.Permission).Execute())
}

func unpacked[T any](value T, response *http.Response, err error) (any, *http.Response, error) {
	return value, response, err
}
