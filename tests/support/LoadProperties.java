// Reads texts, each in Base64 on a line of stdin, with java.util.Properties, and writes what it found in each on a
// line: keys and values in turn, in Base64, with a space between two; "refused" where load throws.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;

public class LoadProperties {
    public static void main(String[] unused) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(found(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_16BE)));
        }
    }

    private static String found(String text) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException malformed) {
            return "refused";
        }
        List<String> words = new ArrayList<>();
        for (String key : new TreeSet<>(properties.stringPropertyNames())) {
            words.add(encoded(key));
            words.add(encoded(properties.getProperty(key)));
        }
        return String.join(" ", words);
    }

    private static String encoded(String text) {
        // With a letter before it, so that an empty one is a word, too. UTF-16BE replaces half a surrogate pair.
        StringBuilder hex = new StringBuilder("x");
        text.chars().forEach(unit -> hex.append(String.format("%04x", unit)));
        return hex.toString();
    }
}
