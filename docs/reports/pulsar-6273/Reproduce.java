import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;

/**
 * Sends 1 to 45, closes, comes back under the same name, and sends 42 to 51 in one batch. Needs a broker with
 * brokerDeduplicationEnabled=true, and Pulsar's client on the class path:
 *
 *     java -cp "pulsar/lib/*" Reproduce.java pulsar://localhost:6650 persistent://public/default/reproduce
 *
 * With 45 as a third argument the second producer has this initialSequenceId, and nothing is lost.
 */
public class Reproduce {
    private static final int STORED = 45;
    private static final int AGAIN = 42;
    private static final int LAST = 51;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            try (Producer<byte[]> producer = named(client, topic).create()) {
                for (long id = 1; id <= STORED; id++) {
                    producer.newMessage().sequenceId(id).value(Long.toString(id).getBytes()).send();
                }
            }
            ProducerBuilder<byte[]> again = named(client, topic);
            if (arguments.length > 2) {
                again.initialSequenceId(Long.parseLong(arguments[2]));
            }
            try (Producer<byte[]> producer = again.create()) {
                System.out.println("the broker's last sequence id: " + producer.getLastSequenceId());
                List<CompletableFuture<MessageId>> answers = new ArrayList<>();
                for (long id = AGAIN; id <= LAST; id++) {
                    answers.add(producer.newMessage().sequenceId(id).value(Long.toString(id).getBytes()).sendAsync());
                }
                for (int place = 0; place < answers.size(); place++) {
                    System.out.println((AGAIN + place) + " is acknowledged at " + answers.get(place).get());
                }
            }
            TreeSet<Long> lost = new TreeSet<>();
            for (long id = 1; id <= LAST; id++) {
                lost.add(id);
            }
            try (Reader<byte[]> reader =
                    client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
                Message<byte[]> message;
                while (reader.hasMessageAvailable() && (message = reader.readNext(9, TimeUnit.SECONDS)) != null) {
                    lost.remove(Long.parseLong(new String(message.getValue())));
                }
            }
            System.out.println("acknowledged and not in the topic: " + lost);
        }
    }

    private static ProducerBuilder<byte[]> named(PulsarClient client, String topic) {
        return client.newProducer()
                .topic(topic)
                .producerName("reproduce")
                .sendTimeout(0, TimeUnit.SECONDS)
                .enableBatching(true)
                .batchingMaxMessages(LAST - AGAIN + 1)
                .batchingMaxPublishDelay(1, TimeUnit.SECONDS);
    }
}
