// Asks Kafka's own StandardAuthorizer (from the jars) about ACLs given as JSON lines, and writes what it says.
//
//   in:  {"superUsers": "...", "allowEveryone": bool,
//         "acls": [the fields of AccessControlEntryRecord, codes as numbers, ids left out],
//         "queries": [{"principal", "host", "operation", "resourceType"[, "resourceName"]}]}
//   out: [{"result", "rule", "level"} for a question with a name, {"result"} (by resource type) for one without;
//         {"error"} where it throws; {"bits"} (KIP-430) where "kind" is "authorizedOperations"]
// or
//   in:  {"operations": true}
//   out: [{the name of each resource type: [the operations that AclEntry supports for it, by name]}]
// or
//   in:  {"hosts": [...]}
//   out: for each what the controller says to an ACL with that host, below the metadata.version that allows
//        networks and from there on: [{"error"} or {}, ...]; from Kafka 4.4 on
//
// For any release from 3.9 on. Started by tests/support/kafka_authorizer.py as a single-file Java program.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.slf4j.Logger;

public class AskAuthorizer {
    static final ObjectMapper JSON = new ObjectMapper();
    static String level;
    static String line;

    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 1; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    /** An authorizer whose audit log only remembers its last line: the rule is nowhere else to be had. */
    static StandardAuthorizer authorizer(JsonNode state) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "node.id", "1",
            "super.users", state.get("superUsers").asText(),
            "allow.everyone.if.no.acl.found", state.get("allowEveryone").asText()));
        withMetrics(authorizer);
        authorizer.completeInitialLoad();
        Field data = StandardAuthorizer.class.getDeclaredField("data");
        data.setAccessible(true);
        Field auditLog = data.get(authorizer).getClass().getDeclaredField("auditLog");
        auditLog.setAccessible(true);
        auditLog.set(data.get(authorizer), Proxy.newProxyInstance(
            AskAuthorizer.class.getClassLoader(), new Class<?>[] {Logger.class}, (proxy, method, arguments) -> {
                if (method.getReturnType() == boolean.class) return true;
                level = method.getName().toUpperCase();
                line = String.valueOf(arguments[0]);
                return null;
            }));
        int number = 0;
        for (JsonNode acl : state.get("acls")) {
            authorizer.addAcl(new Uuid(1, number++), StandardAcl.fromRecord(new AccessControlEntryRecord()
                .setResourceType((byte) acl.get("resourceType").asInt())
                .setResourceName(acl.get("resourceName").asText())
                .setPatternType((byte) acl.get("patternType").asInt())
                .setPrincipal(acl.get("principal").asText())
                .setHost(acl.get("host").asText())
                .setOperation((byte) acl.get("operation").asInt())
                .setPermissionType((byte) acl.get("permissionType").asInt())));
        }
        return authorizer;
    }

    /** From Kafka 4.1 on it does not work without. */
    static void withMetrics(StandardAuthorizer authorizer) throws Exception {
        for (Method method : StandardAuthorizer.class.getMethods()) {
            if (method.getName().equals("withPluginMetrics")) {
                Constructor<?> metrics = Class.forName("org.apache.kafka.common.metrics.internals.PluginMetricsImpl")
                    .getConstructor(Metrics.class, Map.class);
                method.invoke(authorizer, metrics.newInstance(new Metrics(), Map.of()));
            }
        }
    }

    static ObjectNode creation(String host, boolean areNetworksSupported) throws Exception {
        Method validate = Class.forName("org.apache.kafka.controller.AclControlManager")
            .getDeclaredMethod("validateHostPattern", String.class, boolean.class);
        validate.setAccessible(true);
        ObjectNode answer = JSON.createObjectNode();
        try {
            validate.invoke(null, host, areNetworksSupported);
        } catch (InvocationTargetException e) {
            answer.put("error", e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage());
        }
        return answer;
    }

    static ObjectNode answer(StandardAuthorizer authorizer, JsonNode question) {
        try {
            return ask(authorizer, question);
        } catch (Exception e) {
            return JSON.createObjectNode().put("error", e.toString());
        }
    }

    static ObjectNode ask(StandardAuthorizer authorizer, JsonNode question) throws Exception {
        String principal = question.get("principal").asText();
        int colon = principal.indexOf(':');
        Context context = new Context(
            new KafkaPrincipal(principal.substring(0, colon), principal.substring(colon + 1)),
            InetAddress.getByName(question.get("host").asText()));
        ResourceType type = ResourceType.valueOf(question.get("resourceType").asText());
        if (question.path("kind").asText().equals("authorizedOperations")) {
            return JSON.createObjectNode()
                .put("bits", authorizedOperations(authorizer, context, type, question.get("resourceName").asText()));
        }
        AclOperation operation = AclOperation.valueOf(question.get("operation").asText());
        ObjectNode answer = JSON.createObjectNode();
        if (!question.has("resourceName")) {
            return answer.put("result", authorizer.authorizeByResourceType(context, operation, type).name());
        }
        ResourcePattern pattern = new ResourcePattern(type, question.get("resourceName").asText(), PatternType.LITERAL);
        answer.put("result", authorizer.authorize(context, List.of(new Action(operation, pattern, 1, true, true))).get(0).name());
        String before = " based on rule ";
        return answer.put("rule", line.substring(line.indexOf(before) + before.length())).put("level", level);
    }

    /** As AuthHelper.authorizedOperations, which is Scala, and as Utils.to32BitField. */
    static int authorizedOperations(StandardAuthorizer authorizer, Context context, ResourceType type, String name) {
        ResourcePattern pattern = new ResourcePattern(type, name, PatternType.LITERAL);
        int bits = 0;
        for (AclOperation operation : AclEntry.supportedOperations(type)) {
            Action action = new Action(operation, pattern, 1, false, false);
            if (authorizer.authorize(context, List.of(action)).get(0).name().equals("ALLOWED")) {
                bits |= 1 << operation.code();
            }
        }
        return bits;
    }

    static ObjectNode supportedOperations() {
        ObjectNode table = JSON.createObjectNode();
        for (ResourceType type : ResourceType.values()) {
            if (type.code() > ResourceType.ANY.code()) {
                ArrayNode operations = table.putArray(type.name());
                AclEntry.supportedOperations(type).stream().sorted().forEach(each -> operations.add(each.name()));
            }
        }
        return table;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text; (text = in.readLine()) != null; ) {
            JsonNode state = JSON.readTree(text);
            ArrayNode answers = JSON.createArrayNode();
            if (state.has("operations")) {
                answers.add(supportedOperations());
            } else if (state.has("hosts")) {
                for (JsonNode host : state.get("hosts")) {
                    answers.add(creation(host.asText(), false)).add(creation(host.asText(), true));
                }
            } else {
                StandardAuthorizer authorizer = authorizer(state);
                for (JsonNode query : state.get("queries")) {
                    answers.add(answer(authorizer, query));
                }
            }
            out.println(JSON.writeValueAsString(answers));
        }
        out.flush();
    }
}
