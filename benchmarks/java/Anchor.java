// Measures Kafka's own StandardAuthorizer, from the jars on the class path, as one side of a benchmark.
//
// It stays up and obeys: each line on stdin is a JSON object with "do", each answer is one JSON line on stdout. So
// the other side can take its rounds between these, on the same machine at the same time. Times are CPU time of the
// measuring thread: work of the JIT compiler and the garbage collector is not counted.
//
// Started by benchmarks/anchor.py as a single-file program.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class Anchor {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream STDERR = System.err;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    // Calls between two looks at the clock.
    private static final int STRIDE = 64;
    // Garbage collections before the heap counts as what is reachable.
    private static final int COLLECTIONS = 4;

    // What is counted ends here, so that the compiler cannot drop the work.
    private static volatile long sink;

    private final long emptyHeap = usedHeap();
    private Map<Uuid, StandardAcl> input = Map.of();
    private StandardAuthorizer authorizer;
    private final Map<String, Request[]> requests = new HashMap<>();
    // Where each list goes on in its next round.
    private final Map<String, Integer> positions = new HashMap<>();

    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "CLIENTS";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_SSL;
        }

        @Override
        public int requestType() {
            return 3;
        }

        @Override
        public int requestVersion() {
            return 1;
        }

        @Override
        public String clientId() {
            return "benchmark";
        }

        @Override
        public int correlationId() {
            return 1;
        }
    }

    // One call of authorize.
    private record Request(Context context, List<Action> actions) {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Anchor anchor = new Anchor();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                anchor.obey(JSON.readTree(line), answer);
            } catch (Exception error) {
                error.printStackTrace();
                answer.put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private void obey(JsonNode command, ObjectNode answer) throws Exception {
        switch (command.get("do").asText()) {
            case "read-acls" -> {
                input = readAcls(Path.of(command.get("file").asText()));
                answer.put("count", input.size());
            }
            case "load" -> load(answer);
            case "heap" -> {
                input = Map.of();
                answer.put("bytes", usedHeap() - emptyHeap);
            }
            case "configure" -> authorizer.configure(configuration(command.get("allow").asBoolean()));
            case "read-requests" -> requests.put(
                command.get("list").asText(),
                readRequests(
                    Path.of(command.get("file").asText()),
                    command.get("actions").asInt(),
                    command.get("audited").asBoolean()));
            case "log-to" -> logTo(command.get("file"));
            case "decide" -> answer.put("results", decide(list(command), command.get("count").asInt()));
            case "authorize" -> authorize(command.get("list").asText(), command.get("seconds").asDouble(), answer);
            case "threads" -> threads(
                list(command), command.get("threads").asInt(), command.get("seconds").asDouble(), answer);
            case "update" -> update(readAcls(Path.of(command.get("file").asText())), answer);
            case "acls" -> acls(command, answer);
            case "by-resource-type" -> byResourceType(list(command), command.get("count").asInt(), answer);
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
    }

    // slf4j-simple writes to what System.err is at the time, and flushes each line: one write for each.
    private static void logTo(JsonNode file) throws Exception {
        if (System.err != STDERR) {
            System.err.close();
        }
        System.setErr(file.isNull()
            ? STDERR
            : new PrintStream(new BufferedOutputStream(new FileOutputStream(file.asText())), false, "UTF-8"));
    }

    private Request[] list(JsonNode command) {
        return requests.get(command.get("list").asText());
    }

    // --- what is read --------------------------------------------------------------------------------------------

    private static Map<Uuid, StandardAcl> readAcls(Path file) throws Exception {
        Map<Uuid, StandardAcl> acls = new LinkedHashMap<>();
        // Equal texts are different Strings here, as they are in a broker that has replayed its log.
        try (BufferedReader reader = Files.newBufferedReader(file)) {
            for (String line; (line = reader.readLine()) != null; ) {
                JsonNode data = JSON.readTree(line).get("data");
                acls.put(
                    Uuid.fromString(data.get("id").asText()),
                    StandardAcl.fromRecord(new AccessControlEntryRecord()
                        .setResourceType((byte) data.get("resourceType").asInt())
                        .setResourceName(data.get("resourceName").asText())
                        .setPatternType((byte) data.get("patternType").asInt())
                        .setPrincipal(data.get("principal").asText())
                        .setHost(data.get("host").asText())
                        .setOperation((byte) data.get("operation").asInt())
                        .setPermissionType((byte) data.get("permissionType").asInt())));
            }
        }
        return acls;
    }

    // Each `actions` lines become one request, asked by who asks the first of them.
    private static Request[] readRequests(Path file, int actions, boolean audited) throws Exception {
        List<Request> read = new ArrayList<>();
        Context context = null;
        List<Action> gathered = new ArrayList<>();
        try (BufferedReader reader = Files.newBufferedReader(file)) {
            for (String line; (line = reader.readLine()) != null; ) {
                JsonNode query = JSON.readTree(line);
                if (gathered.isEmpty()) {
                    String[] principal = query.get("principal").asText().split(":", 2);
                    context = new Context(
                        new KafkaPrincipal(principal[0], principal[1]),
                        InetAddress.getByName(query.get("host").asText()));
                }
                gathered.add(new Action(
                    AclOperation.fromCode((byte) query.get("operation").asInt()),
                    new ResourcePattern(
                        ResourceType.fromCode((byte) query.get("resourceType").asInt()),
                        query.get("resourceName").asText(),
                        PatternType.LITERAL),
                    1,
                    audited,
                    audited));
                if (gathered.size() == actions) {
                    read.add(new Request(context, List.copyOf(gathered)));
                    gathered.clear();
                }
            }
        }
        return read.toArray(new Request[0]);
    }

    // --- what is measured ----------------------------------------------------------------------------------------

    private void load(ObjectNode answer) {
        StandardAuthorizer fresh = new StandardAuthorizer();
        fresh.configure(configuration(false));
        fresh.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        long wall = System.nanoTime();
        long cpu = THREADS.getCurrentThreadCpuTime();
        fresh.loadSnapshot(input);
        fresh.completeInitialLoad();
        answer.put("cpu_ns", THREADS.getCurrentThreadCpuTime() - cpu);
        answer.put("wall_ns", System.nanoTime() - wall);
        authorizer = fresh;
    }

    private static Map<String, ?> configuration(boolean allowEveryoneIfNoAclFound) {
        return Map.of(
            "node.id", "1",
            "super.users", "User:admin",
            "allow.everyone.if.no.acl.found", allowEveryoneIfNoAclFound);
    }

    private static long usedHeap() {
        for (int i = 0; i < COLLECTIONS; i++) {
            System.gc();
            try {
                Thread.sleep(100);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    private String decide(Request[] all, int count) {
        StringBuilder results = new StringBuilder(count);
        for (int i = 0; i < count; i++) {
            Request request = all[(int) ((long) i * all.length / count)];
            try {
                for (AuthorizationResult result : authorizer.authorize(request.context, request.actions)) {
                    results.append(result == AuthorizationResult.ALLOWED ? 'A' : 'D');
                }
            } catch (RuntimeException error) {
                results.append("X".repeat(request.actions.size()));
            }
        }
        return results.toString();
    }

    private void authorize(String name, double seconds, ObjectNode answer) {
        Request[] all = requests.get(name);
        int next = positions.getOrDefault(name, 0);
        long calls = 0;
        long allowed = 0;
        long began = THREADS.getCurrentThreadCpuTime();
        long took;
        do {
            for (int i = 0; i < STRIDE; i++) {
                Request request = all[next];
                if (authorizer.authorize(request.context, request.actions).get(0) == AuthorizationResult.ALLOWED) {
                    allowed++;
                }
                if (++next == all.length) {
                    next = 0;
                }
            }
            calls += STRIDE;
            took = THREADS.getCurrentThreadCpuTime() - began;
        } while (took < seconds * 1e9);
        answer.put("ns", took / (double) calls);
        answer.put("calls", calls);
        positions.put(name, next);
        sink += allowed;
    }

    private void threads(Request[] all, int count, double seconds, ObjectNode answer) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(count);
        List<Callable<long[]>> workers = new ArrayList<>();
        for (int worker = 0; worker < count; worker++) {
            int first = worker * all.length / count;
            workers.add(() -> decideUntil(all, first, System.nanoTime() + (long) (seconds * 1e9)));
        }
        long decisions = 0;
        long cpu = 0;
        long wall = System.nanoTime();
        for (Future<long[]> worker : pool.invokeAll(workers)) {
            decisions += worker.get()[0];
            cpu += worker.get()[1];
        }
        answer.put("decisions", decisions);
        answer.put("cpu_ns", cpu);
        answer.put("wall_ns", System.nanoTime() - wall);
        pool.shutdown();
    }

    private long[] decideUntil(Request[] all, int first, long end) {
        long cpu = THREADS.getCurrentThreadCpuTime();
        long allowed = 0;
        long calls = 0;
        int next = first;
        while (System.nanoTime() < end) {
            for (int i = 0; i < STRIDE; i++) {
                Request request = all[next];
                if (authorizer.authorize(request.context, request.actions).get(0) == AuthorizationResult.ALLOWED) {
                    allowed++;
                }
                if (++next == all.length) {
                    next = 0;
                }
            }
            calls += STRIDE;
        }
        sink += allowed;
        return new long[] {calls, THREADS.getCurrentThreadCpuTime() - cpu};
    }

    // All of them are added one by one, and removed again one by one.
    private void update(Map<Uuid, StandardAcl> acls, ObjectNode answer) {
        long began = THREADS.getCurrentThreadCpuTime();
        acls.forEach(authorizer::addAcl);
        long added = THREADS.getCurrentThreadCpuTime();
        acls.keySet().forEach(authorizer::removeAcl);
        long removed = THREADS.getCurrentThreadCpuTime();
        answer.put("add_ns", (added - began) / (double) acls.size());
        answer.put("remove_ns", (removed - added) / (double) acls.size());
    }

    private void acls(JsonNode command, ObjectNode answer) {
        JsonNode name = command.get("resourceName");
        JsonNode principal = command.get("principal");
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromCode((byte) command.get("resourceType").asInt()),
                name.isNull() ? null : name.asText(),
                PatternType.fromCode((byte) command.get("patternType").asInt())),
            new AccessControlEntryFilter(
                principal.isNull() ? null : principal.asText(), null, AclOperation.ANY, AclPermissionType.ANY));
        long cpu = THREADS.getCurrentThreadCpuTime();
        int found = 0;
        for (AclBinding acl : authorizer.acls(filter)) {
            found += acl == null ? 0 : 1;
        }
        answer.put("ns", THREADS.getCurrentThreadCpuTime() - cpu);
        answer.put("found", found);
    }

    private void byResourceType(Request[] all, int count, ObjectNode answer) {
        StringBuilder results = new StringBuilder(count);
        long cpu = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < count; i++) {
            Request request = all[(int) ((long) i * all.length / count)];
            boolean allowed = authorizer.authorizeByResourceType(request.context, AclOperation.READ, ResourceType.TOPIC)
                == AuthorizationResult.ALLOWED;
            results.append(allowed ? 'A' : 'D');
        }
        answer.put("ns", (THREADS.getCurrentThreadCpuTime() - cpu) / (double) count);
        answer.put("results", results.toString());
    }
}
