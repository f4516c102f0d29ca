// Runs Kafka's own AclCommand (kafka-acls, from the jars) on command lines given as JSON lines, against an
// Admin that holds the ACLs in memory, and writes what it printed and did as JSON lines.
//
//   in:  {"args": [...], "existing": [{"resourceType", "resourceName", ..., "permissionType"}, ...]}
//   out: {"exit": n, "out": "...", "err": "first line", "acls": [the ACLs afterwards]}
//
// Started by tests/support/kafka_acls/__init__.py as a single-file Java program.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateAclsResult;
import org.apache.kafka.clients.admin.DeleteAclsResult;
import org.apache.kafka.clients.admin.DescribeAclsResult;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.utils.Exit;

public class RecordAclCommand {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            super("exit " + code);
            this.code = code;
        }
    }

    public static void main(String[] unused) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
    }

    private static ObjectNode run(JsonNode question) throws Exception {
        List<String> args = new ArrayList<>();
        question.get("args").forEach(arg -> args.add(arg.asText()));
        Set<AclBinding> acls = new LinkedHashSet<>();
        question.get("existing").forEach(acl -> acls.add(binding(acl)));

        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int exit = 0;
        try {
            command(args.toArray(new String[0]), admin(acls));
        } catch (Exited exited) {
            exit = exited.code;
        } finally {
            System.setOut(stdout);
            System.setErr(stderr);
        }

        ObjectNode answer = JSON.createObjectNode();
        answer.put("exit", exit);
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8).lines().findFirst().orElse(""));
        ArrayNode after = answer.putArray("acls");
        acls.forEach(acl -> after.add(json(acl)));
        return answer;
    }

    // AclCommand.main, with our Admin in the place of the one that it would make.
    private static void command(String[] args, Admin admin) throws Exception {
        Class<?> command = Class.forName("org.apache.kafka.tools.AclCommand");
        Class<?> optionsClass = Class.forName("org.apache.kafka.tools.AclCommand$AclCommandOptions");
        Constructor<?> constructor = optionsClass.getDeclaredConstructor(String[].class);
        constructor.setAccessible(true);
        try {
            Object options = constructor.newInstance((Object) args);
            Method configs = command.getDeclaredMethod("adminConfigs", optionsClass);
            configs.setAccessible(true);
            configs.invoke(null, options);
            List<String> given = List.of(args);
            String action = given.contains("--add") ? "addAcls" : given.contains("--remove") ? "removeAcls" : "listAcls";
            Method method = command.getDeclaredMethod(action, Admin.class, optionsClass);
            method.setAccessible(true);
            method.invoke(null, admin, options);
        } catch (InvocationTargetException wrapped) {
            Throwable cause = wrapped.getCause();
            if (cause instanceof Exited exited) {
                throw exited;
            }
            System.out.println("Error while executing ACL command: " + cause.getMessage());
            throw new Exited(1);
        }
    }

    private static Admin admin(Set<AclBinding> acls) {
        return (Admin) Proxy.newProxyInstance(
            Admin.class.getClassLoader(),
            new Class<?>[] {Admin.class},
            (proxy, method, given) -> switch (method.getName()) {
                case "describeAcls" -> {
                    AclBindingFilter filter = (AclBindingFilter) given[0];
                    Collection<AclBinding> matching = acls.stream().filter(filter::matches).toList();
                    yield make(DescribeAclsResult.class, KafkaFuture.completedFuture(matching));
                }
                case "createAcls" -> {
                    Map<AclBinding, KafkaFuture<Void>> results = new HashMap<>();
                    for (Object acl : (Collection<?>) given[0]) {
                        acls.add((AclBinding) acl);
                        results.put((AclBinding) acl, KafkaFuture.completedFuture(null));
                    }
                    yield make(CreateAclsResult.class, results);
                }
                case "deleteAcls" -> {
                    Map<AclBindingFilter, KafkaFuture<DeleteAclsResult.FilterResults>> results = new HashMap<>();
                    for (Object filter : (Collection<?>) given[0]) {
                        acls.removeIf(((AclBindingFilter) filter)::matches);
                        results.put(
                            (AclBindingFilter) filter,
                            KafkaFuture.completedFuture(make(DeleteAclsResult.FilterResults.class, List.of())));
                    }
                    yield make(DeleteAclsResult.class, results);
                }
                case "close" -> null;
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }

    @SuppressWarnings("unchecked")
    private static <T> T make(Class<T> type, Object argument) throws Exception {
        Constructor<?> constructor = type.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        return (T) constructor.newInstance(argument);
    }

    private static AclBinding binding(JsonNode acl) {
        return new AclBinding(
            new ResourcePattern(
                ResourceType.valueOf(acl.get("resourceType").asText()),
                acl.get("resourceName").asText(),
                PatternType.valueOf(acl.get("patternType").asText())),
            new AccessControlEntry(
                acl.get("principal").asText(),
                acl.get("host").asText(),
                AclOperation.valueOf(acl.get("operation").asText()),
                AclPermissionType.valueOf(acl.get("permissionType").asText())));
    }

    private static ObjectNode json(AclBinding acl) {
        ObjectNode node = JSON.createObjectNode();
        node.put("resourceType", acl.pattern().resourceType().name());
        node.put("resourceName", acl.pattern().name());
        node.put("patternType", acl.pattern().patternType().name());
        node.put("principal", acl.entry().principal());
        node.put("host", acl.entry().host());
        node.put("operation", acl.entry().operation().name());
        node.put("permissionType", acl.entry().permissionType().name());
        return node;
    }
}
