// Kafka's own client (Java) as a client under test. One source for every version of kafka-clients from 2.8 on.
//
// A thread of its own watches who leads the partitions. In transactions only a call that returns settles one; of a call that
// ends in an error which the library calls fatal, nobody knows what it has ended.

import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.logging.LogRecord;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class KafkaJavaClient extends ClientProgram {
    static final long LOOK_MS = 250;

    /** The acks with which success means that a broker has the message. The library takes them with blanks around. */
    static final Set<String> ACKNOWLEDGED = Set.of("all", "-1", "1");

    /** The library's log lines that tell of a disturbance; the group is the broker's id, of which -1 is none. */
    static final Map<Pattern, String> DISTURBANCES = new HashMap<>();

    static {
        DISTURBANCES.put(Pattern.compile("Node (-?\\d+) disconnected"), "disconnect");
        DISTURBANCES.put(Pattern.compile("Disconnecting from node (-?\\d+) due to"), "disconnect");
        DISTURBANCES.put(Pattern.compile("onnect(?:ion|ing) to node (-?\\d+) .*(?:could not be|terminated)"), "disconnect");
        DISTURBANCES.put(Pattern.compile("Cancelled in-flight PRODUCE request.* due to node (-?\\d+)"), "retry");
        DISTURBANCES.put(Pattern.compile("Got error produce response .*retrying"), "retry");
    }

    String topic;
    boolean acknowledged;
    KafkaProducer<byte[], byte[]> producer;

    public static void main(String[] arguments) throws Exception {
        start(new KafkaJavaClient());
    }

    @Override
    void check(Map<String, Object> asked) {
        asked.put("bootstrap", "127.0.0.1:1");
        build(asked);
    }

    @Override
    void open(Map<String, Object> asked) throws InterruptedException {
        topic = (String) asked.get("topic");
        producer = build(asked);
        awaitLeaders();
        if (asked.get("transactions") != null) awaitTransactions();
    }

    @Override
    void watch() {
        daemon("leaders", this::watchLeaders);
    }

    @Override
    void flush() {
        producer.flush();
    }

    @Override
    void close() {
        producer.close();
    }

    @Override
    void begin() {
        try {
            producer.beginTransaction();
        } catch (RuntimeException error) {
            giveUp(error);
        }
    }

    @Override
    String end(boolean commit) {
        if (!failed.isEmpty()) return "unknown";
        try {
            if (commit) {
                producer.commitTransaction();
                return "committed";
            }
        } catch (RuntimeException error) {
            witness("error", "commit: " + one(error), Instant.now(), null, null);
            if (isFatal(error)) return giveUp(error);
        }
        try {
            producer.abortTransaction();
            return "aborted";
        } catch (RuntimeException error) {
            return giveUp(error);
        }
    }

    String giveUp(RuntimeException error) {
        failed = one(error);
        fenced = error instanceof ProducerFencedException || error instanceof InvalidProducerEpochException;
        witness("error", "the client has given up: " + failed, Instant.now(), null, null);
        return "unknown";
    }

    /** Whether the library says that a producer with this error is to be closed. A time-out says nothing of the end. */
    static boolean isFatal(RuntimeException error) {
        return error instanceof ProducerFencedException || error instanceof OutOfOrderSequenceException
            || error instanceof AuthorizationException || error instanceof UnsupportedVersionException
            || error instanceof TimeoutException || !(error instanceof KafkaException);
    }

    // ---- settings

    @Override
    String version() {
        return "kafka-clients " + AppInfoParser.getVersion();
    }

    @Override
    Map<String, String> settings(Map<String, Object> asked) {
        Map<String, String> all = new TreeMap<>();
        all.put("acks", "all");
        all.put("max.in.flight.requests.per.connection", "5");
        all.put("retries", "2147483647");
        all.putAll(given(asked));
        all.putIfAbsent("client.id", (String) asked.get("client_name"));
        all.put("bootstrap.servers", (String) asked.get("bootstrap"));
        all.put("enable.idempotence", String.valueOf(asked.get("deduplication")));
        all.put("delivery.timeout.ms", String.valueOf(asked.get("delivery_timeout_ms")));
        all.put("max.block.ms", String.valueOf(asked.get("delivery_timeout_ms")));
        long patienceMs = (Long) asked.get("delivery_timeout_ms");
        Map<?, ?> transactions = (Map<?, ?>) asked.get("transactions");
        if (transactions != null) {
            patienceMs = Math.min(patienceMs, (Long) transactions.get("timeout_ms"));
            all.put("delivery.timeout.ms", String.valueOf(patienceMs));
            all.put("transactional.id", (String) transactions.get("id"));
            all.put("transaction.timeout.ms", String.valueOf(transactions.get("timeout_ms")));
        }
        // The library wants delivery.timeout.ms to be at least linger.ms and request.timeout.ms together.
        if (patienceMs < 60_000) all.putIfAbsent("request.timeout.ms", String.valueOf(patienceMs / 2));
        return all;
    }

    /** The producer; ends the program with the library's own words if it does not take the settings. */
    KafkaProducer<byte[], byte[]> build(Map<String, Object> asked) {
        Properties settings = new Properties();
        settings.putAll(settings(asked));
        acknowledged = ACKNOWLEDGED.contains(settings.getProperty("acks").trim());
        try {
            for (String name : settings.stringPropertyNames()) {
                if (!ProducerConfig.configNames().contains(name)) {
                    throw new IllegalArgumentException(version() + " has no setting " + name);
                }
            }
            return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        } catch (RuntimeException error) {
            refuse(error);
            throw error;
        }
    }

    // ---- sending

    @Override
    Message message(long word, int partition) {
        return new Sent(word, partition);
    }

    @Override
    void hand(Message message, byte[] payload) {
        try {
            producer.send(new ProducerRecord<>(topic, message.partition, null, payload), (Sent) message);
        } catch (RuntimeException error) {
            message.end(error, neverTaken(error));
        }
    }

    final class Sent extends Message implements Callback {
        Sent(long word, int partition) {
            super(word, partition);
        }

        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            if (error != null) {
                end(error, neverTaken(error));
                return;
            }
            boolean stored = metadata.hasOffset() && acknowledged;
            end(acknowledged ? OK : UNKNOWN, metadata.partition(), 0, stored ? metadata.offset() : -1, 0);
        }
    }

    /** Whether an error that `send` itself meets proves that the library never took the message: nothing else does. */
    static boolean neverTaken(Exception error) {
        return error instanceof RecordTooLargeException || error instanceof TimeoutException;
    }

    // ---- witnesses

    @Override
    boolean isNoise(LogRecord record) {
        return record.getLoggerName() != null && record.getLoggerName().endsWith("ProducerConfig");
    }

    @Override
    void noticeLine(LogRecord record, String text) {
        for (Map.Entry<Pattern, String> each : DISTURBANCES.entrySet()) {
            Matcher found = each.getKey().matcher(text);
            if (!found.find()) continue;
            String broker = found.groupCount() > 0 && !found.group(1).startsWith("-") ? found.group(1) : null;
            witness(each.getValue(), text, record.getInstant(), broker, null);
            return;
        }
    }

    void awaitLeaders() throws InterruptedException {
        while (true) {
            try {
                if (leaders().size() == streams) return;
            } catch (org.apache.kafka.common.errors.RetriableException error) {
                say('L', "waiting for the topic: " + one(error));
            }
            Thread.sleep(50);
        }
    }

    /**
     * The transactions of this id, begun: brokers that have just started take their time to make the topic of all transactions'
     * states. The library's time-out is that of a delivery, and may be tried again; who started this program bounds the whole.
     */
    void awaitTransactions() {
        while (true) {
            try {
                producer.initTransactions();
                return;
            } catch (TimeoutException error) {
                say('L', "waiting for transactions: " + one(error));
            }
        }
    }

    /** The brokers that lead, by partition, as the library knows them. */
    Map<Integer, Integer> leaders() {
        Map<Integer, Integer> found = new TreeMap<>();
        for (PartitionInfo each : producer.partitionsFor(topic)) {
            if (each.leader() != null && each.leader().id() >= 0) found.put(each.partition(), each.leader().id());
        }
        return found;
    }

    void watchLeaders() {
        Map<Integer, Integer> known = new HashMap<>();
        Instant looked = Instant.now();
        while (!written) {
            try {
                Map<Integer, Integer> now = leaders();
                Instant at = Instant.now();
                for (Map.Entry<Integer, Integer> each : now.entrySet()) {
                    Integer before = known.put(each.getKey(), each.getValue());
                    if (before != null && !before.equals(each.getValue())) {
                        String words = "partition " + each.getKey() + ": " + before + " -> " + each.getValue();
                        witness("leader", words, at, String.valueOf(before), looked);
                    }
                }
                looked = at;
                Thread.sleep(LOOK_MS);
            } catch (InterruptedException | RuntimeException error) {
                if (finishing || written) return;
                say('L', "who leads is not known: " + one(error));
            }
        }
    }
}
