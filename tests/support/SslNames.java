import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * What Java makes of a subject, and Kafka of a name. Reads lines from stdin, every word in hex:
 * {@code subject DER} or {@code map RULES NAME}; answers each with {@code ok TEXT-IN-HEX} or {@code error}.
 */
public final class SslNames {
    public static void main(String[] args) throws Exception {
        HexFormat hex = HexFormat.of();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                String text = words[0].equals("subject")
                    ? new X500Principal(hex.parseHex(words[1])).getName()
                    : SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
                answer = "ok " + hex.formatHex(text.getBytes(StandardCharsets.UTF_8));
            } catch (Exception error) {
                answer = "error";
            }
            System.out.println(answer);
        }
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }
}
