// Runs main classes of Kafka's command line tools (from the jars) in one JVM, on command lines given as JSON lines.
//
//   in:  {"tool": "org.apache.kafka.tools.AclCommand", "args": [...]}
//   out: {"exit": n, "out": "...", "err": "..."}
//
// Started by tests/support/kafka_tools.py as a single-file Java program.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

public class RunTools {
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
        setExitProcedure();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
    }

    // In place of Exit.setExitProcedure: Kafka 4.4 has Exit in another package.
    private static void setExitProcedure() throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before44) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object throwing = Proxy.newProxyInstance(
            procedure.getClassLoader(),
            new Class<?>[] {procedure},
            (proxy, method, given) -> {
                throw new Exited((int) given[0]);
            });
        exit.getMethod("setExitProcedure", procedure).invoke(null, throwing);
    }

    private static ObjectNode run(JsonNode question) throws Exception {
        List<String> args = new ArrayList<>();
        question.get("args").forEach(arg -> args.add(arg.asText()));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int exit = 0;
        try {
            Class.forName(question.get("tool").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Exited exited) {
                exit = exited.code;
            } else { // as Java ends
                System.err.println("Exception in thread \"main\" " + wrapped.getCause());
                exit = 1;
            }
        } finally {
            System.setOut(stdout);
            System.setErr(stderr);
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("exit", exit);
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
        return answer;
    }
}
