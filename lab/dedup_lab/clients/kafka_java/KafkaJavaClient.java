// Kafka's own client (Java) as a client under test: it speaks the protocol of docs/write-a-client.md.
//
// One source for every version of kafka-clients from 2.8 on. Four threads: the main one sends, one takes orders from
// standard input, one writes frames to standard output, and one watches who leads the partitions. The library's own
// thread calls back with outcomes and logs what it notices; it writes 33 bytes into a buffer and never waits.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class KafkaJavaClient {
    static final int OK = 0, FAIL = 1, UNKNOWN = 2;
    static final int REFUSED = 2, PARENT_GONE = 70;
    static final int ROW_BYTES = 33, ROWS = 4096, HEAD_BYTES = 5 + 8;
    static final long FLUSH_NS = 5_000_000, ROOM_NS = 100_000, LOOK_MS = 250, ERROR_EVERY_NS = 100_000_000;

    /** The library's log lines that tell of a disturbance; the group is the broker's id, of which -1 is none. */
    static final Map<Pattern, String> DISTURBANCES = new HashMap<>();

    static {
        DISTURBANCES.put(Pattern.compile("Node (-?\\d+) disconnected"), "disconnect");
        DISTURBANCES.put(Pattern.compile("Disconnecting from node (-?\\d+) due to"), "disconnect");
        DISTURBANCES.put(Pattern.compile("onnect(?:ion|ing) to node (-?\\d+) .*(?:could not be|terminated)"), "disconnect");
        DISTURBANCES.put(Pattern.compile("Cancelled in-flight PRODUCE request.* due to node (-?\\d+)"), "retry");
        DISTURBANCES.put(Pattern.compile("Got error produce response .*retrying"), "retry");
    }

    final LinkedBlockingQueue<byte[]> frames = new LinkedBlockingQueue<>();
    final Object rowsLock = new Object();
    ByteBuffer rows = newRows();
    final Thread sender = Thread.currentThread();

    /** Up to which message it may send, and how many it has handed to the library; each has one writer. */
    volatile long target, sent;
    final AtomicLong ended = new AtomicLong();
    volatile boolean stopped, finishing, written, failing;
    Message inSend;
    long lastErrorNs = System.nanoTime() - ERROR_EVERY_NS;

    String topic, acks;
    int streams;
    long inFlight;
    KafkaProducer<byte[], byte[]> producer;

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> asked = new Json(orders.readLine()).object();
        KafkaJavaClient client = new KafkaJavaClient();
        if (asked.get("check") == Boolean.TRUE) {
            LogManager.getLogManager().reset();
            asked.put("bootstrap", "127.0.0.1:1");
            asked.put("client_name", "check");
            asked.put("delivery_timeout_ms", 300_000L);
            client.build(asked);
            Runtime.getRuntime().halt(0);
        }
        client.listen();
        client.run(asked, orders);
    }

    void run(Map<String, Object> asked, BufferedReader orders) throws Exception {
        Thread writer = new Thread(this::write, "frames");
        writer.start();
        try {
            daemon("orders", () -> obey(orders));
            topic = (String) asked.get("topic");
            streams = ((Long) asked.get("streams")).intValue();
            inFlight = (Long) asked.get("in_flight");
            producer = build(asked);
            awaitLeaders();
            say('R', "{\"version\": " + quoted("kafka-clients " + AppInfoParser.getVersion() + ", Java "
                + System.getProperty("java.version")) + ", \"settings\": " + object(settings(asked)) + "}");
            daemon("leaders", this::watchLeaders);
            sendAll();
            producer.flush();
            while (ended.get() < sent) LockSupport.parkNanos(FLUSH_NS);
            producer.close();
            cut();
            say('F', "");
        } catch (Throwable error) {
            failing = true;
            System.err.println(one(error));
        }
        written = true;
        writer.join();
        Runtime.getRuntime().halt(failing ? 1 : 0);
    }

    // ---- settings

    Properties settings(Map<String, Object> asked) {
        Map<String, String> all = new TreeMap<>();
        all.put("acks", "all");
        all.put("max.in.flight.requests.per.connection", "5");
        all.put("retries", "2147483647");
        for (Map.Entry<?, ?> given : ((Map<?, ?>) asked.get("properties")).entrySet()) {
            all.put((String) given.getKey(), (String) given.getValue());
        }
        all.putIfAbsent("client.id", (String) asked.get("client_name"));
        all.put("bootstrap.servers", (String) asked.get("bootstrap"));
        all.put("enable.idempotence", String.valueOf(asked.get("deduplication")));
        all.put("delivery.timeout.ms", String.valueOf(asked.get("delivery_timeout_ms")));
        all.put("max.block.ms", String.valueOf(asked.get("delivery_timeout_ms")));
        long patienceMs = (Long) asked.get("delivery_timeout_ms");
        // The library wants delivery.timeout.ms to be at least linger.ms and request.timeout.ms together.
        if (patienceMs < 60_000) all.putIfAbsent("request.timeout.ms", String.valueOf(patienceMs / 2));
        Properties settings = new Properties();
        settings.putAll(all);
        return settings;
    }

    /** The producer; ends the program with the library's own words if it does not take the settings. */
    KafkaProducer<byte[], byte[]> build(Map<String, Object> asked) {
        Properties settings = settings(asked);
        acks = settings.getProperty("acks");
        try {
            for (String name : settings.stringPropertyNames()) {
                if (!ProducerConfig.configNames().contains(name)) {
                    throw new IllegalArgumentException(
                        "kafka-clients " + AppInfoParser.getVersion() + " has no setting " + name);
                }
            }
            return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null) cause = cause.getCause();
            System.err.println(String.valueOf(cause.getMessage()).replaceAll("\\s+", " "));
            Runtime.getRuntime().halt(REFUSED);
            throw error;
        }
    }

    // ---- sending

    void sendAll() {
        long answered = 0;
        while (true) {
            long until = target;
            if (sent < until && !stopped) {
                while (sent < until && hasRoom()) sendNext();
            }
            if (until > answered) {
                answered = until;
                say('S', sent);
            } else if (finishing) {
                return;
            } else {
                LockSupport.park();
            }
        }
    }

    /** Waits until one more message may be unacknowledged; false if it is to stop. */
    boolean hasRoom() {
        while (!stopped) {
            if (sent - ended.get() < inFlight) return true;
            LockSupport.parkNanos(ROOM_NS);
        }
        return false;
    }

    void sendNext() {
        long number = sent;
        int stream = (int) (number % streams);
        Message message = new Message((long) stream << 48 | (number / streams + 1), stream);
        byte[] payload = new byte[8];
        for (int index = 7, shift = 0; index >= 0; index--, shift += 8) payload[index] = (byte) (message.word >>> shift);
        inSend = message;
        sent = number + 1;
        try {
            producer.send(new ProducerRecord<>(topic, stream, null, payload), message);
        } catch (RuntimeException error) {
            message.onCompletion(null, error);
        }
        inSend = null;
    }

    /** One message, and what becomes of it. */
    final class Message implements Callback {
        final long word;
        final int partition;
        boolean over;

        Message(long word, int partition) {
            this.word = word;
            this.partition = partition;
        }

        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            boolean bySender = this == inSend && Thread.currentThread() == sender;
            synchronized (rowsLock) {
                if (over) return;
                over = true;
                if (error == null) {
                    boolean stored = metadata.hasOffset() && !acks.equals("0");
                    row(word, stored || !acks.equals("0") ? OK : UNKNOWN, metadata.partition(),
                        stored ? metadata.offset() : -1);
                } else {
                    row(word, bySender && neverTaken(error) ? FAIL : UNKNOWN, partition, -1);
                }
            }
            if (error != null) noticeError(error);
            ended.incrementAndGet();
        }
    }

    /** Whether an error that `send` itself meets proves that the library never took the message: nothing else does. */
    static boolean neverTaken(Exception error) {
        return error instanceof RecordTooLargeException || error instanceof TimeoutException;
    }

    // ---- frames

    static ByteBuffer newRows() {
        ByteBuffer fresh = ByteBuffer.allocate(HEAD_BYTES + ROWS * ROW_BYTES);
        fresh.position(HEAD_BYTES);
        return fresh;
    }

    void row(long word, int outcome, int partition, long offset) {
        ByteBuffer into = rows;
        into.putLong(word).put((byte) outcome).putInt(partition).putLong(0).putLong(offset).putInt(0);
        if (into.remaining() < ROW_BYTES) cut();
    }

    /** What is sent is read first: a tester that counts what is in flight counts too few. */
    void cut() {
        long sentBefore = sent;
        synchronized (rowsLock) {
            int size = rows.position();
            byte[] bytes = rows.array();
            if (size < bytes.length) bytes = Arrays.copyOf(bytes, size);
            else rows = newRows();
            ByteBuffer.wrap(bytes).put((byte) 'O').putInt(size - 5).putLong(sentBefore);
            rows.position(HEAD_BYTES);
            frames.add(bytes);
        }
    }

    void say(char kind, String text) {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        frames.add(ByteBuffer.allocate(5 + body.length).put((byte) kind).putInt(body.length).put(body).array());
    }

    void say(char kind, long number) {
        frames.add(ByteBuffer.allocate(13).put((byte) kind).putInt(8).putLong(number).array());
    }

    /** Writes every frame, and what is in the buffer every few milliseconds, until all is written. */
    void write() {
        try (OutputStream out = new FileOutputStream(FileDescriptor.out)) {
            long cutNs = System.nanoTime();
            while (true) {
                byte[] frame = frames.poll(FLUSH_NS, TimeUnit.NANOSECONDS);
                if (frame != null) out.write(frame);
                else if (written) return;
                if (System.nanoTime() - cutNs >= FLUSH_NS) {
                    boolean any;
                    synchronized (rowsLock) {
                        any = rows.position() > HEAD_BYTES;
                    }
                    if (any) cut();
                    cutNs = System.nanoTime();
                }
            }
        } catch (IOException | InterruptedException error) {
            Runtime.getRuntime().halt(PARENT_GONE);
        }
    }

    // ---- orders

    void obey(BufferedReader orders) {
        try {
            for (String order; (order = orders.readLine()) != null; LockSupport.unpark(sender)) {
                String[] words = order.split(" ");
                switch (words[0]) {
                    case "send":
                        target = Long.parseLong(words[1]);
                        break;
                    case "count":
                        cut();
                        say('C', Long.parseLong(words[1]));
                        break;
                    case "stop":
                        stopped = true;
                        break;
                    case "finish":
                        finishing = true;
                        break;
                    default:
                        throw new IOException("no such order: " + order);
                }
            }
        } catch (IOException error) {
            System.err.println(one(error));
        }
        if (!written) Runtime.getRuntime().halt(PARENT_GONE);
    }

    // ---- witnesses

    /** Everything that the library logs goes to the tester, and what tells of a disturbance as a witness besides. */
    void listen() {
        LogManager.getLogManager().reset();
        Logger root = Logger.getLogger("");
        SimpleFormatter words = new SimpleFormatter();
        root.addHandler(new Handler() {
            @Override
            public void publish(LogRecord record) {
                String text = words.formatMessage(record);
                if (record.getLoggerName() != null && record.getLoggerName().endsWith("ProducerConfig")) return;
                say('L', record.getLevel() + " " + text + (record.getThrown() == null ? "" : " " + one(record.getThrown())));
                for (Map.Entry<Pattern, String> each : DISTURBANCES.entrySet()) {
                    Matcher found = each.getKey().matcher(text);
                    if (!found.find()) continue;
                    String broker = found.groupCount() > 0 && !found.group(1).startsWith("-") ? found.group(1) : null;
                    witness(each.getValue(), text, record.getInstant(), broker, null);
                    return;
                }
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        });
        Logger.getLogger("org.apache.kafka").setLevel(Level.INFO);
    }

    void noticeError(Exception error) {
        long nowNs = System.nanoTime();
        synchronized (frames) {
            if (nowNs - lastErrorNs < ERROR_EVERY_NS) return;
            lastErrorNs = nowNs;
        }
        witness("error", "delivery failed: " + one(error), Instant.now(), null, null);
    }

    void witness(String kind, String detail, Instant at, String broker, Instant since) {
        say('W', "{\"kind\": " + quoted(kind) + ", \"detail\": " + quoted(detail) + ", \"unix_ns\": " + ns(at)
            + (broker == null ? "" : ", \"broker\": " + quoted(broker))
            + (since == null ? "" : ", \"since_unix_ns\": " + ns(since)) + "}");
    }

    static long ns(Instant at) {
        return at.getEpochSecond() * 1_000_000_000L + at.getNano();
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

    // ---- small things

    static void daemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    static String one(Throwable error) {
        return (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("\\s+", " ");
    }

    static String object(Properties properties) {
        List<String> pairs = new ArrayList<>();
        for (String name : properties.stringPropertyNames()) {
            pairs.add(quoted(name) + ": " + quoted(properties.getProperty(name)));
        }
        return "{" + String.join(", ", pairs) + "}";
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') out.append('\\').append(each);
            else if (each < ' ') out.append(String.format("\\u%04x", (int) each));
            else out.append(each);
        }
        return out.append('"').toString();
    }

    /** Reads the tester's document: objects, texts, whole numbers, true, false and null. */
    static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Map<String, Object> object() {
            Map<String, Object> found = new TreeMap<>();
            take('{');
            while (next() != '}') {
                String key = string();
                take(':');
                found.put(key, value());
                if (next() == ',') at++;
            }
            at++;
            return found;
        }

        private Object value() {
            char first = next();
            if (first == '{') return object();
            if (first == '"') return string();
            int end = at;
            while (end < text.length() && ",} \n".indexOf(text.charAt(end)) < 0) end++;
            String word = text.substring(at, end);
            at = end;
            if (word.equals("null")) return null;
            return word.equals("true") ? Boolean.TRUE : word.equals("false") ? (Object) Boolean.FALSE : Long.valueOf(word);
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            take('"');
            for (char each; (each = text.charAt(at++)) != '"'; ) {
                if (each != '\\') {
                    out.append(each);
                    continue;
                }
                char escaped = text.charAt(at++);
                if (escaped == 'u') {
                    out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    int known = "nrtbf".indexOf(escaped);
                    out.append(known < 0 ? escaped : "\n\r\t\b\f".charAt(known));
                }
            }
            return out.toString();
        }

        private char next() {
            while (Character.isWhitespace(text.charAt(at))) at++;
            return text.charAt(at);
        }

        private void take(char expected) {
            if (next() != expected) throw new IllegalArgumentException("no " + expected + " at " + at);
            at++;
        }
    }
}
