import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/**
 * Kafka's reading of {@code sasl.jaas.config}. Reads texts from stdin, one a line, in hex; answers each with
 * the login module and its options, sorted: {@code ok NAME KEY VALUE KEY VALUE ...}, all in hex; or
 * {@code error}.
 */
public final class JaasEntries {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String text = new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_8);
            String answer;
            try {
                AppConfigurationEntry entry = JaasContext
                    .loadClientContext(Map.of("sasl.jaas.config", new Password(text)))
                    .configurationEntries().get(0);
                StringBuilder words = new StringBuilder("ok ").append(hex(entry.getLoginModuleName()));
                for (Map.Entry<String, ?> option : new TreeMap<>(entry.getOptions()).entrySet()) {
                    words.append(' ').append(hex(option.getKey())).append(' ').append(hex((String) option.getValue()));
                }
                answer = words.toString();
            } catch (Exception error) {
                answer = "error";
            }
            System.out.println(answer);
        }
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
