package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type franz struct {
	plain *kgo.Client
	admin *kadm.Client
}

func newFranz(address string, as login) client {
	plain, err := kgo.NewClient(as.franz(address)...)
	must(err)
	return franz{plain, kadm.NewClient(plain)}
}

func (f franz) execute(ctx context.Context, wanted request) (answer, error) {
	found := answer{Described: map[string]json.RawMessage{}}
	switch wanted.Do {
	case "create":
		results, err := f.admin.CreateACLs(ctx, built(wanted.Acl))
		if err == nil && results[0].Err != nil {
			err = errors.New(results[0].Err.Error() + " " + results[0].ErrMessage)
		}
		return found, err
	case "delete":
		results, err := f.admin.DeleteACLs(ctx, built(wanted.Acl))
		for _, each := range results {
			err = errors.Join(err, each.Err)
			for _, deleted := range each.Deleted {
				found.add(deleted.Type, deleted.Name, deleted.Pattern, deleted.Principal, deleted.Host,
					deleted.Operation, deleted.Permission)
			}
		}
		return found, err
	case "describe":
		results, err := f.admin.DescribeACLs(ctx, built(wanted.Acl))
		for _, each := range results {
			err = errors.Join(err, each.Err)
			for _, listed := range each.Described {
				found.add(listed.Type, listed.Name, listed.Pattern, listed.Principal, listed.Host,
					listed.Operation, listed.Permission)
			}
		}
		return found, err
	case "metadata":
		metadata, err := f.admin.Metadata(kadm.WithAuthorizedOps(ctx), wanted.Names...)
		for name, topic := range metadata.Topics {
			found.Described[name] = described([]any{topic.ID, topic.AuthorizedOperations, topic.Err})
		}
		found.Described["cluster"] = described([]any{metadata.Cluster, len(metadata.Brokers), metadata.Controller >= 0})
		return found, err
	case "cluster":
		asked := kmsg.NewPtrDescribeClusterRequest()
		asked.IncludeClusterAuthorizedOperations = true
		cluster, err := asked.RequestWith(ctx, f.plain)
		if err == nil {
			operations := kadm.DecodeACLOperations(cluster.ClusterAuthorizedOperations)
			found.Described["cluster"] = described([]any{cluster.ClusterID, operations, cluster.ErrorCode})
		}
		return found, err
	case "groups":
		groups, err := f.admin.DescribeGroups(ctx, wanted.Names...)
		for name, group := range groups {
			found.Described[name] = described([]any{group.State, group.AuthorizedOperations, group.Err})
		}
		return found, err
	case "consumer groups":
		groups, err := f.admin.DescribeConsumerGroups(ctx, wanted.Names...)
		for name, group := range groups {
			found.Described[name] = described([]any{group.State, group.AuthorizedOperations, group.Err})
		}
		return found, err
	}
	return found, errors.New("unknown request " + wanted.Do)
}

// built returns one ACL, or the filters for it: kadm sends one for each permission, unless all is wanted.
func built(wanted acl) *kadm.ACLBuilder {
	builder := kadm.NewACLs().Operations(kmsg.ACLOperation(wanted.Operation)).
		ResourcePatternType(kmsg.ACLResourcePatternType(wanted.PatternType))
	names, principals, hosts := list(wanted.ResourceName), list(wanted.Principal), list(wanted.Host)
	switch kmsg.ACLResourceType(wanted.ResourceType) {
	case kmsg.ACLResourceTypeAny:
		builder.AnyResource(names...)
	case kmsg.ACLResourceTypeTopic:
		builder.Topics(names...)
	case kmsg.ACLResourceTypeGroup:
		builder.Groups(names...)
	case kmsg.ACLResourceTypeCluster:
		builder.Clusters()
	case kmsg.ACLResourceTypeTransactionalId:
		builder.TransactionalIDs(names...)
	case kmsg.ACLResourceTypeDelegationToken:
		builder.DelegationTokens(names...)
	}
	permission := kmsg.ACLPermissionType(wanted.Permission)
	if permission != kmsg.ACLPermissionTypeDeny {
		builder.Allow(principals...).AllowHosts(hosts...)
	}
	if permission != kmsg.ACLPermissionTypeAllow {
		builder.Deny(principals...).DenyHosts(hosts...)
	}
	return builder
}

func list(value *string) []string {
	if value == nil {
		return nil
	}
	return []string{*value}
}

func (a *answer) add(
	kind kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType, principal, host string,
	operation kmsg.ACLOperation, permission kmsg.ACLPermissionType,
) {
	a.Acls = append(a.Acls, acl{int8(kind), &name, int8(pattern), &principal, &host, int8(operation), int8(permission)})
}
