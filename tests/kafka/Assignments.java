import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Prints the assignments of Kafka's own assignors. Argument: a file with one group in each line:
 * assignor|topic=racks of partition 0,racks of partition 1;...|member=topics=rack;... where a rack is one letter.
 */
public class Assignments {
    public static void main(String[] files) throws Exception {
        for (String line : Files.readAllLines(Path.of(files[0]))) {
            String[] parts = line.split("\\|", -1);
            AbstractPartitionAssignor assignor = switch (parts[0]) {
                case "range" -> new RangeAssignor();
                case "sticky" -> new StickyAssignor();
                default -> new CooperativeStickyAssignor();
            };
            var topics = new TreeMap<String, List<PartitionInfo>>();
            for (String topic : parts[1].split(";"))
                topics.put(topic.split("=")[0], partitions(topic.split("=")[0], topic.split("=")[1].split(",")));
            var members = new TreeMap<String, Subscription>();
            for (String member : parts[2].split(";")) {
                String[] fields = member.split("=", -1);
                Optional<String> rack = fields[2].isEmpty() ? Optional.empty() : Optional.of(fields[2]);
                members.put(fields[0], new Subscription(List.of(fields[1].split(",")), null, List.of(), -1, rack));
            }
            System.out.println("assigned " + text(assignor.assignPartitions(topics, members)));
        }
    }

    private static List<PartitionInfo> partitions(String topic, String[] racks) {
        var partitions = new ArrayList<PartitionInfo>();
        for (String each : racks) {
            Node[] replicas = each.chars()
                .mapToObj(rack -> new Node(rack, "broker", 9092, String.valueOf((char) rack))).toArray(Node[]::new);
            partitions.add(new PartitionInfo(topic, partitions.size(), replicas[0], replicas, replicas));
        }
        return partitions;
    }

    private static String text(Map<String, List<TopicPartition>> assignment) {
        return new TreeMap<>(assignment).entrySet().stream()
            .map(entry -> entry.getKey() + "=" + sorted(entry.getValue())).collect(Collectors.joining(";"));
    }

    private static String sorted(List<TopicPartition> partitions) {
        Stream<TopicPartition> ordered = partitions.stream()
            .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        return ordered.map(TopicPartition::toString).collect(Collectors.joining(","));
    }
}
