import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.JwtValidatorException;

/** Prints what Kafka's broker accepts. Arguments: URL of the keys, file of tokens, issuer, audiences. */
public class TokenValidation {
    public static void main(String[] arguments) throws Exception {
        var settings = new HashMap<String, Object>();
        settings.put("sasl.oauthbearer.jwks.endpoint.url", arguments[0]);
        settings.put("sasl.oauthbearer.clock.skew.seconds", 300);
        settings.put("sasl.oauthbearer.scope.claim.name", "scope");
        settings.put("sasl.oauthbearer.sub.claim.name", "sub");
        settings.put("sasl.oauthbearer.expected.audience", List.of(arguments).subList(3, arguments.length));
        if (!arguments[2].isEmpty())
            settings.put("sasl.oauthbearer.expected.issuer", arguments[2]);
        var flag = AppConfigurationEntry.LoginModuleControlFlag.REQUIRED;
        var validator = new BrokerJwtValidator();
        validator.configure(settings, "OAUTHBEARER", List.of(new AppConfigurationEntry("module", flag, Map.of())));
        for (String token : Files.readAllLines(Path.of(arguments[1]))) {
            try {
                var found = validator.validate(token);
                System.out.println(found.principalName() + " " + new TreeSet<>(found.scope()));
            } catch (JwtValidatorException | ClassCastException error) {
                // A scope that is a number is an internal error of Kafka, which also ends the authentication.
                System.out.println("rejected");
            }
        }
    }
}
