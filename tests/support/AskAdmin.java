// Sends requests with Kafka's own Admin (from the jars), given as JSON lines, and writes the results as JSON lines.
//
//   in:  {"client": {"bootstrap.servers": ..., ...}, "request": "createAcls", "acls": [[7 strings], ...]}
//        {..., "request": "describeAcls", "filter": [7 strings or nulls]}
//        {..., "request": "deleteAcls", "filters": [...]}
//        {..., "request": "describeCluster"}
//        {..., "request": "describeTopics", "names": [...]}
//        {..., "request": "describeConsumerGroups", "names": [...]}
//   out: [one string for each result, sorted]; authorized operations are always included. A change is answered
//        when the server lists it
//
// The seven strings: resource type, name, pattern type, principal, host, operation, permission type.
// Started by tests/support/kafka_tools.py as a single-file Java program.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

public class AskAdmin {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<Map<String, Object>, Admin> CLIENTS = new HashMap<>();

    private interface Show<T> {
        String of(T value) throws Exception;
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> found = ask(JSON.readTree(line));
            found.sort(null);
            answers.println(JSON.writeValueAsString(found));
        }
        CLIENTS.values().forEach(Admin::close);
    }

    @SuppressWarnings("unchecked")
    private static List<String> ask(JsonNode question) throws Exception {
        Admin admin = CLIENTS.computeIfAbsent(
            JSON.convertValue(question.get("client"), Map.class), settings -> Admin.create(settings));
        List<String> found = new ArrayList<>();
        switch (question.get("request").asText()) {
            case "createAcls" -> {
                List<AclBinding> acls = new ArrayList<>();
                question.get("acls").forEach(acl -> acls.add(binding(acl)));
                Set<AclBinding> created = new HashSet<>();
                admin.createAcls(acls).values().forEach((acl, result) -> found.add(acl + ": " + shown(result, none -> {
                    created.add(acl);
                    return "created";
                })));
                awaitListing(admin, listed -> listed.containsAll(created));
            }
            case "describeAcls" -> found.add(
                shown(admin.describeAcls(filter(question.get("filter"))).values(), AskAdmin::sorted));
            case "deleteAcls" -> {
                List<AclBindingFilter> filters = new ArrayList<>();
                question.get("filters").forEach(each -> filters.add(filter(each)));
                Set<AclBinding> removed = new HashSet<>();
                admin.deleteAcls(filters).values().forEach((filter, result) -> found.add(
                    filter + ": " + shown(result, deleted -> sorted(deleted.values().stream().map(each -> {
                        removed.add(each.binding());
                        return each.binding() + " " + each.exception();
                    }).toList()))));
                awaitListing(admin, listed -> Collections.disjoint(listed, removed));
            }
            case "describeCluster" -> {
                var result = admin.describeCluster(
                    new DescribeClusterOptions().includeAuthorizedOperations(true));
                found.add(shown(result.clusterId(), id -> id));
                found.add(shown(result.nodes(), nodes -> nodes.size() + " nodes"));
                found.add(shown(result.authorizedOperations(), AskAdmin::sorted));
            }
            case "describeTopics" -> admin.describeTopics(
                names(question), new DescribeTopicsOptions().includeAuthorizedOperations(true)
            ).topicNameValues().forEach((name, result) -> found.add(name + ": " + shown(
                result, topic -> topic.name() + " " + topic.topicId() + " " + topic.isInternal()
                    + " " + sorted(topic.authorizedOperations()))));
            case "describeConsumerGroups" -> admin.describeConsumerGroups(
                names(question), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)
            ).describedGroups().forEach((name, result) -> found.add(name + ": " + shown(
                result, group -> group.groupId() + " " + group.isSimpleConsumerGroup() + " " + group.members()
                    + " " + group.partitionAssignor() + " " + group.state()
                    + " " + sorted(group.authorizedOperations()))));
            default -> throw new IllegalArgumentException(question.toString());
        }
        return found;
    }

    // A broker answers a change before it has replayed it. Who may not list cannot see the difference.
    private static void awaitListing(Admin admin, Predicate<Collection<AclBinding>> isReplayed) throws Exception {
        try {
            while (!isReplayed.test(admin.describeAcls(AclBindingFilter.ANY).values().get())) {
                Thread.sleep(10);
            }
        } catch (ExecutionException notAllowed) {
            return;
        }
    }

    private static <T> String shown(KafkaFuture<T> result, Show<T> show) {
        try {
            return show.of(result.get());
        } catch (ExecutionException error) {
            return error.getCause().toString();
        } catch (Exception error) {
            return error.toString();
        }
    }

    private static String sorted(Collection<?> values) {
        return values == null ? "null" : new TreeSet<>(values.stream().map(String::valueOf).toList()).toString();
    }

    private static List<String> names(JsonNode question) {
        List<String> names = new ArrayList<>();
        question.get("names").forEach(name -> names.add(name.asText()));
        return names;
    }

    private static AclBinding binding(JsonNode acl) {
        return new AclBinding(
            new ResourcePattern(
                ResourceType.valueOf(acl.get(0).asText()),
                acl.get(1).asText(),
                PatternType.valueOf(acl.get(2).asText())),
            new AccessControlEntry(
                acl.get(3).asText(),
                acl.get(4).asText(),
                AclOperation.valueOf(acl.get(5).asText()),
                AclPermissionType.valueOf(acl.get(6).asText())));
    }

    private static AclBindingFilter filter(JsonNode filter) {
        return new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.valueOf(filter.get(0).asText()),
                filter.get(1).textValue(),
                PatternType.valueOf(filter.get(2).asText())),
            new AccessControlEntryFilter(
                filter.get(3).textValue(),
                filter.get(4).textValue(),
                AclOperation.valueOf(filter.get(5).asText()),
                AclPermissionType.valueOf(filter.get(6).asText())));
    }
}
