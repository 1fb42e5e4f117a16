// Kafka Streams: counts of words in a state store, which is stored in a changelog topic.
//
// java -cp 'jars/*' WordCounts.java localhost:9092

import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

public class WordCounts {
    static final List<String> WORDS = List.of("high", "low", "high", "slack", "high");

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> servers = Map.of("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(servers)) {
            admin.createTopics(List.of(new NewTopic("streams-words", 2, (short) 1),
                    new NewTopic("streams-counts", 2, (short) 1))).all().get();
        }
        try (var producer = new KafkaProducer<>(servers, new StringSerializer(), new StringSerializer())) {
            WORDS.forEach(word -> producer.send(new ProducerRecord<>("streams-words", word)));
        }
        try (KafkaStreams streams = new KafkaStreams(topology(), settings(arguments[0]))) {
            streams.start();
            System.out.println("counts " + counts(arguments[0]));
        }
    }

    static org.apache.kafka.streams.Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("streams-words")
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .to("streams-counts", Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    static Properties settings(String servers) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams-counter");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams").toString());
        settings.put("auto.offset.reset", "earliest");
        return settings;
    }

    // Reads the results until the counts add up to the number of words.
    static Map<String, Long> counts(String servers) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", "streams-reader",
                "auto.offset.reset", "earliest", "isolation.level", "read_committed");
        Map<String, Long> counts = new TreeMap<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of("streams-counts"));
            while (counts.values().stream().mapToLong(Long::longValue).sum() < WORDS.size()) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> counts.put(record.key(), record.value()));
            }
        }
        return counts;
    }
}
