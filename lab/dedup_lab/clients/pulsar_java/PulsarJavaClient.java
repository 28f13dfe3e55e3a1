// Pulsar's own client (Java) as a client under test. One source for every version of pulsar-client from 2.11 on.
//
// One producer a partition topic, each with a name of its own, because Pulsar deduplicates by producer name and sequence
// id; the sequence id is given with every message and is its value. Nothing differs between control and treatment:
// deduplication is the broker's policy. A duplicate that the broker recognised is acknowledged with the position (-1, -1).
//
// In transactions only a call that returns settles one: what became of a commit that ends in an error nobody knows, unless the
// client says that it has aborted the transaction instead.

import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.logging.LogRecord;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.pulsar.PulsarVersion;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.PulsarClientException.MemoryBufferIsFullError;
import org.apache.pulsar.client.api.PulsarClientException.ProducerQueueIsFullError;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.api.transaction.TransactionCoordinatorClientException.InvalidTxnStatusException;
import org.apache.pulsar.client.api.transaction.TransactionCoordinatorClientException.TransactionNotFoundException;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.client.impl.conf.ClientConfigurationData;
import org.apache.pulsar.client.impl.conf.ProducerConfigurationData;
import org.apache.pulsar.client.impl.transaction.TransactionImpl;

public final class PulsarJavaClient extends ClientProgram {
    /** So many more may be pending than are in flight: the library gives a place back about when it calls back. */
    static final int MORE_PENDING = 2048;
    static final long AGAIN_MS = 100;

    /** The library's log lines that tell of a disturbance. */
    static final Map<Pattern, String> DISTURBANCES = new LinkedHashMap<>();

    static {
        DISTURBANCES.put(Pattern.compile("Re-Sending \\d+ messages to server"), "retry");
        DISTURBANCES.put(Pattern.compile("Will try again in|Reconnecting after"), "retry");
        DISTURBANCES.put(Pattern.compile(" Disconnected$|Got exception|Failed to open connection"), "disconnect");
    }

    /** How a line names the connection that it is about. */
    static final Pattern REMOTE = Pattern.compile("R:[^\\]]*:(\\d+)\\]");

    final List<Producer<byte[]>> producers = new ArrayList<>();
    final Map<String, String> brokers = new HashMap<>();
    PulsarClient client;
    ProducerBuilder<byte[]> builder;
    volatile boolean leaving;

    /** After how long brokers abort a transaction, 0 if none is asked for; how long a call may take; and the one that is open. */
    long transactionMs, patienceMs;
    Transaction transaction;

    public static void main(String[] arguments) throws Exception {
        start(new PulsarJavaClient());
    }

    @Override
    void check(Map<String, Object> asked) throws InterruptedException {
        asked.put("bootstrap", "pulsar://127.0.0.1:1");
        build(asked);
    }

    @Override
    void open(Map<String, Object> asked) throws InterruptedException {
        nameBrokers((Map<?, ?>) asked.get("brokers"));
        patienceMs = (Long) asked.get("delivery_timeout_ms");
        build(asked);
        String topic = (String) asked.get("topic");
        for (int partition = 0; partition < streams; partition++) {
            ProducerBuilder<byte[]> one = builder.clone()
                .topic(streams == 1 ? topic : topic + "-partition-" + partition)
                .producerName(asked.get("client_name") + "-" + partition);
            producers.add(created(one));
        }
    }

    Producer<byte[]> created(ProducerBuilder<byte[]> one) throws InterruptedException {
        while (true) {
            try {
                return one.create();
            } catch (PulsarClientException error) {
                say('L', "waiting for the topic: " + one(error));
            }
            Thread.sleep(AGAIN_MS);
        }
    }

    @Override
    void flush() {
        for (Producer<byte[]> each : producers) each.flushAsync();
    }

    @Override
    void close() {
        leaving = true;
        for (Producer<byte[]> each : producers) {
            try {
                each.close();
            } catch (PulsarClientException error) {
                say('L', "a producer was not closed in order, when all its messages had their outcome: " + one(error));
            }
        }
    }

    @Override
    long[] lastSequenceIds() {
        return producers.stream().mapToLong(Producer::getLastSequenceId).toArray();
    }

    // ---- settings

    @Override
    String version() {
        return "pulsar-client " + PulsarVersion.getVersion();
    }

    @Override
    Map<String, String> settings(Map<String, Object> asked) {
        Map<String, String> all = new TreeMap<>();
        all.put("batchingEnabled", "true");
        all.put("batchingMaxMessages", "1000");
        all.putAll(given(asked));
        all.put("serviceUrl", (String) asked.get("bootstrap"));
        if (asked.get("listener") != null) all.put("listenerName", (String) asked.get("listener"));
        all.put("statsIntervalSeconds", "0");
        all.put("sendTimeoutMs", String.valueOf(asked.get("delivery_timeout_ms")));
        String pending = String.valueOf((Long) asked.get("in_flight") + MORE_PENDING);
        all.put("maxPendingMessages", pending);
        all.put("maxPendingMessagesAcrossPartitions", pending); // which may not be less
        all.put("blockIfQueueFull", "true");
        Map<?, ?> transactions = (Map<?, ?>) asked.get("transactions");
        if (transactions != null) {
            all.put("enableTransaction", "true"); // in the control too, which sends outside: no setting differs
            all.put("sendTimeoutMs", "0"); // the library sends in transactions only without
        }
        return all;
    }

    /** The client and what its producers are made by; ends the program with the library's words if it refuses. */
    void build(Map<String, Object> asked) throws InterruptedException {
        try {
            Map<String, Object> ofClient = new HashMap<>(), ofProducer = new HashMap<>();
            Set<String> clients = names(ClientConfigurationData.class), own = names(ProducerConfigurationData.class);
            for (Map.Entry<String, String> each : settings(asked).entrySet()) {
                if (own.contains(each.getKey())) ofProducer.put(each.getKey(), each.getValue());
                else if (clients.contains(each.getKey())) ofClient.put(each.getKey(), each.getValue());
                else throw new IllegalArgumentException(version() + " has no setting " + each.getKey());
            }
            Map<?, ?> transactions = (Map<?, ?>) asked.get("transactions");
            if (transactions != null && transactions.get("outside") != Boolean.TRUE) {
                transactionMs = (Long) transactions.get("timeout_ms");
            }
            ClientBuilder connecting = PulsarClient.builder().loadConf(ofClient).serviceUrl((String) asked.get("bootstrap"));
            client = transactions == null ? connecting.build() : coordinated(connecting);
            builder = client.newProducer().loadConf(ofProducer);
        } catch (PulsarClientException | RuntimeException error) {
            refuse(error);
        }
    }

    /** The client, when coordinators have answered it: it looks for all of them at once, and may find one that is not ready. */
    PulsarClient coordinated(ClientBuilder connecting) throws InterruptedException {
        while (true) {
            try {
                return connecting.build();
            } catch (PulsarClientException error) {
                say('L', "waiting for the coordinators of transactions: " + one(error));
            }
            Thread.sleep(AGAIN_MS);
        }
    }

    /** The names of the settings that are kept in such an object. */
    static Set<String> names(Class<?> kept) {
        Set<String> found = new HashSet<>();
        for (java.lang.reflect.Field each : kept.getDeclaredFields()) found.add(each.getName());
        return found;
    }

    // ---- transactions

    @Override
    void begin() {
        transaction = null;
        if (transactionMs == 0) return; // its messages are sent in none
        try {
            transaction = returned(client.newTransaction().withTransactionTimeout(transactionMs, TimeUnit.MILLISECONDS).build());
        } catch (Exception error) { // which one it may throw itself differs between versions
            failed = one(error instanceof ExecutionException ? error.getCause() : error);
            witness("error", "begin: " + failed, Instant.now(), null, null);
        }
    }

    @Override
    String end(boolean commit) {
        if (!failed.isEmpty()) return "unknown";
        if (transactionMs == 0) return commit ? "committed" : "aborted";
        long untilNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMs);
        Set<String> told = new HashSet<>();
        while (true) {
            try {
                returned(commit ? transaction.commit() : transaction.abort());
                return commit ? "committed" : "aborted";
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                String words = (commit ? "commit: " : "abort: ") + one(cause);
                if (told.add(words)) witness("error", words, Instant.now(), null, null);
                if (String.valueOf(((TransactionImpl) transaction).getState()).equals("ABORTED")) return "aborted";
                boolean over = cause instanceof InvalidTxnStatusException || cause instanceof TransactionNotFoundException;
                if (over || System.nanoTime() > untilNs) return "unknown";
                rest(); // an error may come at once, and each try is a request
            }
        }
    }

    /** Let a moment pass before the next try. */
    static void rest() {
        try {
            Thread.sleep(AGAIN_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** What a call answers; an ExecutionException with its error, or one of time if it does not answer. */
    <T> T returned(CompletableFuture<T> answer) throws ExecutionException {
        try {
            return answer.get(patienceMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException | InterruptedException error) {
            throw new ExecutionException(error);
        }
    }

    // ---- sending

    @Override
    Message message(long word, int partition) {
        return new Message(word, partition);
    }

    @Override
    void hand(Message message, byte[] payload) {
        Producer<byte[]> producer = producers.get(message.partition);
        if (!failed.isEmpty()) {
            message.end(new IllegalStateException("no transaction was begun"), true); // and outside of one it is not to be sent
            return;
        }
        try {
            (transaction == null ? producer.newMessage() : producer.newMessage(transaction)).value(payload)
                .sequenceId(message.value()).sendAsync()
                .whenComplete((position, error) -> {
                    if (error == null) acknowledged(message, position);
                    else message.end(error, neverTaken(error));
                });
        } catch (RuntimeException error) {
            message.end(error, neverTaken(error));
        }
    }

    static void acknowledged(Message message, MessageId position) {
        MessageIdImpl at = (MessageIdImpl) position;
        int batch = at instanceof BatchMessageIdImpl ? Math.max(0, ((BatchMessageIdImpl) at).getBatchIndex()) : 0;
        message.end(OK, message.partition, at.getLedgerId(), at.getEntryId(), batch);
    }

    /**
     * Whether an error proves that the library never took the message: these two it has only where it has no place for
     * one. Every other may be of a message that was sent: we are not told by whom a future was ended.
     */
    static boolean neverTaken(Throwable error) {
        return error instanceof ProducerQueueIsFullError || error instanceof MemoryBufferIsFullError;
    }

    // ---- witnesses

    /** The brokers' ids by the port at which clients reach them; none of a port that several have. */
    void nameBrokers(Map<?, ?> ports) {
        Set<String> several = new HashSet<>();
        for (Map.Entry<?, ?> each : ports.entrySet()) {
            String port = String.valueOf(each.getValue());
            if (brokers.put(port, (String) each.getKey()) != null) several.add(port);
        }
        brokers.keySet().removeAll(several);
    }

    @Override
    void noticeLine(LogRecord record, String text) {
        if (leaving) return; // from now on it is we who close connections
        for (Map.Entry<Pattern, String> each : DISTURBANCES.entrySet()) {
            if (!each.getKey().matcher(text).find()) continue;
            Matcher remote = REMOTE.matcher(text);
            String broker = remote.find() ? brokers.get(remote.group(1)) : null;
            witness(each.getValue(), text, record.getInstant(), broker, null);
            return;
        }
    }
}
