// An application that reads, writes and commits its positions in the transaction of its outputs, with Kafka's own client.
//
// Arguments: bootstrap, input, output, group, messages of a batch, the position at which this life ends.
// It says where it begins, by the group's word, and each position of which it was told that it is committed.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class TransactionalApplication {
    static final String REQUEST_TIMEOUT_MS = "5000";

    public static void main(String[] arguments) {
        String output = arguments[2], group = arguments[3];
        int batch = Integer.parseInt(arguments[4]);
        long end = Long.parseLong(arguments[5]);
        TopicPartition input = new TopicPartition(arguments[1], 0);
        try (KafkaProducer<byte[], byte[]> producer = producer(arguments[0], group);
            KafkaConsumer<byte[], byte[]> consumer = consumer(arguments[0], group)) {
            producer.initTransactions();
            consumer.assign(List.of(input));
            OffsetAndMetadata known = consumer.committed(Set.of(input)).get(input);
            long position = known == null ? 0 : known.offset();
            System.out.println("began " + position);
            consumer.seek(input, position);
            List<byte[]> taken = new ArrayList<>();
            while (position < end) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(200))) taken.add(each.value());
                while (position < end && taken.size() >= Math.min(batch, end - position)) {
                    List<byte[]> part = taken.subList(0, (int) Math.min(batch, end - position));
                    while (!processed(producer, consumer, output, part, input, position + part.size())) {
                        System.out.println("aborted " + (position + part.size()));
                    }
                    position += part.size();
                    part.clear();
                    System.out.println("committed " + position);
                }
            }
        }
    }

    /** One transaction with the outputs of a batch and the position behind it; false: it was aborted. */
    static boolean processed(
        KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer, String output, List<byte[]> batch,
        TopicPartition input, long position
    ) {
        try {
            producer.beginTransaction();
            for (byte[] each : batch) producer.send(new ProducerRecord<>(output, 0, null, each));
            producer.sendOffsetsToTransaction(Map.of(input, new OffsetAndMetadata(position)), consumer.groupMetadata());
            producer.commitTransaction();
            return true;
        } catch (ProducerFencedException | OutOfOrderSequenceException error) {
            throw error;
        } catch (KafkaException error) {
            System.out.println("error " + error);
            producer.abortTransaction();
            return false;
        }
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "application");
        settings.put("transactional.id", group);
        settings.put("request.timeout.ms", REQUEST_TIMEOUT_MS);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "reader");
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
