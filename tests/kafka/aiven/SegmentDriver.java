import java.io.InputStream;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/**
 * Drives any RemoteStorageManager of Kafka's interface through steps given as arguments.
 *
 * <p>Arguments: a properties file with the class name ("class") and its configs, a properties file that
 * describes one segment, then steps: "copy" (prints the custom metadata in hex), "fetch:FROM:TO:FILE"
 * (TO may be "end"), "index:TYPE:FILE" (prints "missing TYPE" when there is none), "delete".
 */
public class SegmentDriver {
    public static void main(final String[] args) throws Exception {
        final Map<String, Object> configs = new HashMap<>();
        load(args[0]).forEach((key, value) -> configs.put((String) key, value));
        final var manager = (RemoteStorageManager) Class.forName((String) configs.remove("class"))
            .getDeclaredConstructor().newInstance();
        manager.configure(configs);
        final Properties segment = load(args[1]);
        for (int i = 2; i < args.length; i++) {
            step(manager, segment, args[i].split(":", 4));
        }
        manager.close();
        System.exit(0);
    }

    private static void step(final RemoteStorageManager manager, final Properties segment, final String[] step)
        throws Exception {
        final RemoteLogSegmentMetadata metadata = metadata(segment);
        switch (step[0]) {
            case "copy" -> {
                final Optional<CustomMetadata> custom = manager.copyLogSegmentData(metadata, files(segment));
                System.out.println("copied " + custom.map(c -> HexFormat.of().formatHex(c.value())).orElse("-"));
            }
            case "fetch" -> {
                final int from = Integer.parseInt(step[1]);
                final InputStream in = step[2].equals("end")
                    ? manager.fetchLogSegment(metadata, from)
                    : manager.fetchLogSegment(metadata, from, Integer.parseInt(step[2]));
                write(in, step[3]);
            }
            case "index" -> {
                try {
                    write(manager.fetchIndex(metadata, IndexType.valueOf(step[1])), step[2]);
                } catch (final RemoteResourceNotFoundException e) {
                    System.out.println("missing " + step[1]);
                }
            }
            case "delete" -> manager.deleteLogSegmentData(metadata);
            default -> throw new IllegalArgumentException(step[0]);
        }
    }

    private static RemoteLogSegmentMetadata metadata(final Properties segment) {
        final var partition = new TopicPartition(
            segment.getProperty("topic"), Integer.parseInt(segment.getProperty("partition")));
        final var id = new RemoteLogSegmentId(
            new TopicIdPartition(Uuid.fromString(segment.getProperty("topic.id")), partition),
            Uuid.fromString(segment.getProperty("segment.id")));
        final Map<Integer, Long> epochs = new TreeMap<>();
        for (final String entry : segment.getProperty("leader.epochs").split(",")) {
            final String[] parts = entry.split("@");
            epochs.put(Integer.parseInt(parts[0]), Long.parseLong(parts[1]));
        }
        final Optional<CustomMetadata> custom = Optional.ofNullable(segment.getProperty("custom.metadata"))
            .map(hex -> new CustomMetadata(HexFormat.of().parseHex(hex)));
        return new RemoteLogSegmentMetadata(
            id,
            Long.parseLong(segment.getProperty("start.offset")),
            Long.parseLong(segment.getProperty("end.offset")),
            Long.parseLong(segment.getProperty("max.timestamp.ms")),
            Integer.parseInt(segment.getProperty("broker.id")),
            Long.parseLong(segment.getProperty("event.timestamp.ms")),
            Integer.parseInt(segment.getProperty("size.bytes")),
            custom,
            custom.isPresent()
                ? RemoteLogSegmentState.COPY_SEGMENT_FINISHED : RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            epochs,
            Boolean.parseBoolean(segment.getProperty("txn.index.empty")));
    }

    private static LogSegmentData files(final Properties segment) throws Exception {
        final String transactions = segment.getProperty("file.transaction");
        return new LogSegmentData(
            Path.of(segment.getProperty("file.log")),
            Path.of(segment.getProperty("file.offset")),
            Path.of(segment.getProperty("file.timestamp")),
            Optional.ofNullable(transactions).map(Path::of),
            Path.of(segment.getProperty("file.producer")),
            ByteBuffer.wrap(Files.readAllBytes(Path.of(segment.getProperty("file.epochs")))));
    }

    private static void write(final InputStream in, final String file) throws Exception {
        try (in; var out = Files.newOutputStream(Path.of(file))) {
            in.transferTo(out);
        }
    }

    private static Properties load(final String file) throws Exception {
        final Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(file), StandardCharsets.UTF_8)) {
            properties.load(reader);
        }
        return properties;
    }
}
