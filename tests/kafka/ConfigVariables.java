import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the configuration of each properties file after Kafka's config providers. Arguments: the files. */
public class ConfigVariables {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            var properties = new Properties();
            try (var reader = Files.newBufferedReader(Path.of(file))) {
                properties.load(reader);
            }
            var texts = new HashMap<String, Object>();
            properties.forEach((key, value) -> texts.put((String) key, value));
            try {
                var resolved = new TreeMap<String, Object>(
                    new AbstractConfig(new ConfigDef(), texts, Map.of(), false).originals());
                resolved.keySet().removeIf(key -> !key.startsWith("key"));
                System.out.println(resolved.toString().replace("\n", "\\n"));
            } catch (Exception error) {
                System.out.println("rejected");
            }
        }
    }
}
