import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.interceptor.ProducerInterceptor;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Sends messages 1 to 8 from one thread in one transaction, their numbers as sequence ids, commits when all are acknowledged, and
 * reads the topic. Needs a broker with transactionCoordinatorEnabled=true and brokerDeduplicationEnabled=true, and
 * Pulsar's client on the class path:
 *
 *     java -cp "pulsar/lib/*" Reproduce.java pulsar://localhost:6650 persistent://public/default/reproduce
 *
 * With a third argument they are sent outside of transactions, and nothing is lost.
 */
public class Reproduce {
    private static final int LAST = 8;
    private static final CountDownLatch HANDED = new CountDownLatch(1);

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        try (PulsarClient client =
                PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build()) {
            Transaction transaction = arguments.length > 2 ? null : client.newTransaction().build().get();
            try (Producer<byte[]> producer = client.newProducer()
                    .topic(topic)
                    .producerName("reproduce")
                    .sendTimeout(0, TimeUnit.SECONDS)
                    .enableBatching(false)
                    .intercept(new Slow())
                    .create()) {
                List<CompletableFuture<MessageId>> answers = new ArrayList<>();
                for (long id = 1; id <= LAST; id++) {
                    answers.add((transaction == null ? producer.newMessage() : producer.newMessage(transaction))
                            .sequenceId(id).value(Long.toString(id).getBytes()).sendAsync());
                    if (id == 1) {
                        Thread.sleep(2000); // the coordinator answers meanwhile
                    }
                }
                HANDED.countDown();
                for (int place = 0; place < LAST; place++) {
                    System.out.println((place + 1) + " is acknowledged at " + answers.get(place).get(30, TimeUnit.SECONDS));
                }
            }
            if (transaction != null) {
                transaction.commit().get();
            }
            TreeSet<Long> lost = new TreeSet<>();
            for (long id = 1; id <= LAST; id++) {
                lost.add(id);
            }
            try (Reader<byte[]> reader =
                    client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
                Message<byte[]> message;
                while (!lost.isEmpty() && (message = reader.readNext(9, TimeUnit.SECONDS)) != null) {
                    lost.remove(Long.parseLong(new String(message.getValue())));
                }
            }
            System.out.println("acknowledged and not in the topic: " + lost);
        }
    }

    /** Takes its time over message 1: until the others are handed over, at most five seconds. */
    private static class Slow implements ProducerInterceptor {
        @Override
        public void close() {}

        @Override
        public boolean eligible(Message message) {
            return true;
        }

        @Override
        public Message beforeSend(Producer producer, Message message) {
            if (message.getSequenceId() == 1) {
                try {
                    HANDED.await(5, TimeUnit.SECONDS);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }
            return message;
        }

        @Override
        public void onSendAcknowledgement(Producer producer, Message message, MessageId id, Throwable error) {}
    }
}
