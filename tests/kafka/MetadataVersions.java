import org.apache.kafka.server.common.MetadataVersion;

/** Prints for each metadata.version: level, whether records changed, versions of the records of a broker and a partition. */
public class MetadataVersions {
    public static void main(String[] arguments) {
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            if (version.isProduction()) {
                System.out.printf("%d %b %d %d %d%n", version.featureLevel(), version.didMetadataChange(),
                    version.registerBrokerRecordVersion(), version.partitionRecordVersion(),
                    version.partitionChangeRecordVersion());
            }
        }
    }
}
