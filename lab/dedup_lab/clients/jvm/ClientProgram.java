// A client under test that runs on the Java virtual machine: all of the protocol of docs/write-a-client.md but the library.
//
// Four threads: the main one sends, one takes orders from standard input, one writes frames to standard output, and the
// library's own thread calls back with outcomes and logs what it notices; it writes 33 bytes into a buffer and never waits.
// A subclass is one library: it may have threads of its own besides.

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
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.zip.CRC32;

abstract class ClientProgram {
    static final int OK = 0, FAIL = 1, UNKNOWN = 2;
    static final int REFUSED = 2, PARENT_GONE = 70;
    static final int ROW_BYTES = 33, ROWS = 4096, HEAD_BYTES = 5 + 8;
    static final int WORD_BYTES = 8, NAMED_BYTES = 24, CHECKSUM_BYTES = 4;
    static final String LAST_IDS = "last_sequence_ids";
    static final long FLUSH_NS = 5_000_000, ROOM_NS = 1_000_000, ERROR_EVERY_NS = 100_000_000;

    /** When the bound is reached, sending goes on when this part of it is free: a thread is not woken for each message. */
    static final int ROOM_SHARE = 64;

    final LinkedBlockingQueue<byte[]> frames = new LinkedBlockingQueue<>();
    final Object rowsLock = new Object();
    ByteBuffer rows = newRows();
    final Thread sender = Thread.currentThread();

    /** Up to which message it may send, and how many it has handed to the library; each has one writer. */
    volatile long target, sent;

    /** How many messages have their outcome, and at how many the sender wants to be woken. The first is written under rowsLock. */
    volatile long ended, awaited = Long.MAX_VALUE;
    volatile boolean stopped, finishing, written, failing;
    Message inSend;
    long lastErrorNs = System.nanoTime() - ERROR_EVERY_NS;

    int streams, session, payloadBytes = WORD_BYTES;
    long inFlight, first;

    /** The number, in the run, from which the next message is sought; and up to which value those of each stream are not ours. */
    long next;
    volatile long[] after = {};

    /** Orders about transactions, each answered before the next one comes; and why no further one can be, in words: `fenced`, as another instance took its place. */
    final ConcurrentLinkedQueue<String[]> calls = new ConcurrentLinkedQueue<>();
    String failed = "";
    boolean fenced;

    // ---- what a library is asked for

    /** Build the producer, and connect nowhere; `refuse` ends the program if the library does not take the settings. */
    abstract void check(Map<String, Object> asked) throws Exception;

    /** Return when the topic's brokers have answered. */
    abstract void open(Map<String, Object> asked) throws Exception;

    /** The version of the library, in words. */
    abstract String version();

    /** All settings that the library was given, as texts. */
    abstract Map<String, String> settings(Map<String, Object> asked);

    /** What begins when the tester knows that it is ready. */
    void watch() {}

    /** The message that stands for this payload; `hand` gets it at once. */
    abstract Message message(long word, int partition);

    /** Give a message to the library, once. An error that it meets there is the message's end. */
    abstract void hand(Message message, byte[] payload);

    /** Let the library send what it holds back. */
    abstract void flush();

    abstract void close() throws Exception;

    /** Of each stream the last sequence id that the library says is published, -1 for none; empty where there are none. */
    long[] lastSequenceIds() {
        return new long[0];
    }

    /** Begin a transaction. */
    void begin() {
        throw new UnsupportedOperationException("no transactions");
    }

    /** Commit or abort the transaction; what became of it: committed, aborted or unknown. */
    String end(boolean commit) {
        throw new UnsupportedOperationException("no transactions");
    }

    /** Whether a line of the log is of no use. */
    boolean isNoise(LogRecord record) {
        return false;
    }

    /** Say what a line of the log tells of a disturbance. */
    abstract void noticeLine(LogRecord record, String text);

    // ---- the course of a run

    static void start(ClientProgram client) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> asked = new Json(orders.readLine()).object();
        if (asked.get("check") == Boolean.TRUE) {
            LogManager.getLogManager().reset();
            asked.put("client_name", "check");
            asked.put("delivery_timeout_ms", 300_000L);
            client.check(asked);
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
            streams = ((Long) asked.get("streams")).intValue();
            inFlight = (Long) asked.get("in_flight");
            if (asked.get("sends") != null) nameSends((Map<?, ?>) asked.get("sends"));
            open(asked);
            say('R', "{\"version\": " + quoted(version() + ", Java " + System.getProperty("java.version"))
                + ", \"settings\": " + object(settings(asked)) + ", " + quoted(LAST_IDS) + ": "
                + Arrays.toString(lastSequenceIds()) + "}");
            watch();
            sendAll();
            settle();
            close();
            say('F', "");
        } catch (Throwable error) {
            failing = true;
            System.err.println(one(error));
        }
        written = true;
        writer.join();
        Runtime.getRuntime().halt(failing ? 1 : 0);
    }

    /** End the program with the library's own words: it does not take the settings. A document of its own is left out. */
    static void refuse(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null) cause = cause.getCause();
        System.err.println(String.valueOf(cause.getMessage()).replaceAll("\\s+", " ").replaceFirst(" at \\[Source: .*", ""));
        Runtime.getRuntime().halt(REFUSED);
    }

    /** What the experiment gives, by the library's own names. */
    static Map<String, String> given(Map<String, Object> asked) {
        Map<String, String> found = new TreeMap<>();
        for (Map.Entry<?, ?> each : ((Map<?, ?>) asked.get("properties")).entrySet()) {
            found.put((String) each.getKey(), (String) each.getValue());
        }
        return found;
    }

    // ---- sending

    void sendAll() {
        long answered = 0;
        while (true) {
            long until = target;
            while (sent < until && !stopped) {
                long last = Math.min(until, awaitRoom());
                while (sent < last && !stopped) sendNext();
            }
            if (until > answered) {
                answered = until;
                say('S', sent);
            } else if (!calls.isEmpty()) {
                String called = call(calls.poll());
                say('T', "{\"ended\": " + quoted(called) + ", \"failed\": " + quoted(failed) + ", \"fenced\": " + fenced + "}");
            } else if (finishing) {
                return;
            } else {
                LockSupport.park();
            }
        }
    }

    /** Wait until every message sent has its outcome, and say them. */
    void settle() {
        flush();
        while (ended < sent) LockSupport.parkNanos(FLUSH_NS);
        cut();
        if (payloadBytes > WORD_BYTES) sayPublished();
    }

    /** Carry out an order about transactions; what has become of it. */
    String call(String[] words) {
        switch (words[0]) {
            case "begin":
                begin();
                return "begun";
            case "settle":
                settle();
                return "settled";
            default:
                return end(words[0].equals("commit"));
        }
    }

    /** Messages name the session that sends them, the first of which has this number in the run. */
    void nameSends(Map<?, ?> asked) {
        session = ((Long) asked.get("session")).intValue();
        first = (Long) asked.get("first");
        payloadBytes = ((Long) asked.get("bytes")).intValue();
        next = first;
    }

    /** Up to which message the bound lets it send; waits until there is some room, and says what was sent if it is to stop. */
    long awaitRoom() {
        long room = Math.max(1, inFlight / ROOM_SHARE);
        while (!stopped && sent + room > ended + inFlight) {
            awaited = sent + room - inFlight;
            if (ended < awaited) LockSupport.parkNanos(ROOM_NS); // it ends by itself, too: no order and no outcome is missed for long
        }
        awaited = Long.MAX_VALUE;
        return stopped ? sent : ended + inFlight;
    }

    void sendNext() {
        long[] others = after;
        while (others.length > 0 && next / streams + 1 <= others[(int) (next % streams)]) next++;
        long number = next++;
        int stream = (int) (number % streams);
        Message message = message((long) stream << 48 | (number / streams + 1), stream);
        byte[] payload = payload(message.word);
        inSend = message;
        sent = sent + 1;
        hand(message, payload);
        inSend = null;
    }

    /** Who the message is; and in a longer one which session sends it, a checksum, and zeros. */
    byte[] payload(long word) {
        ByteBuffer into = ByteBuffer.allocate(payloadBytes).putLong(word);
        if (payloadBytes > WORD_BYTES) {
            into.putShort((short) session);
            CRC32 checksum = new CRC32();
            checksum.update(into.array(), 0, NAMED_BYTES);
            int filler = NAMED_BYTES + CHECKSUM_BYTES;
            checksum.update(into.array(), filler, payloadBytes - filler);
            into.putInt(NAMED_BYTES, (int) checksum.getValue());
        }
        return into.array();
    }

    /** One message, and what becomes of it. */
    class Message {
        final long word;
        final int partition;
        boolean over;

        Message(long word, int partition) {
            this.word = word;
            this.partition = partition;
        }

        /** The number of this message in its stream, from 1. */
        long value() {
            return word & 0xFFFF_FFFF_FFFFL;
        }

        /** Whether we are within the call that hands it to the library: only then can it be that it was never taken. */
        boolean isInSend() {
            return this == inSend && Thread.currentThread() == sender;
        }

        /** Take down its outcome, unless it has one; whether this is it. Without a position, the entry is -1. */
        boolean end(int outcome, int inPartition, long ledger, long entry, int batch) {
            synchronized (rowsLock) {
                if (over) return false;
                over = true;
                ByteBuffer into = rows;
                into.putLong(word).put((byte) outcome).putInt(inPartition).putLong(ledger).putLong(entry).putInt(batch);
                if (into.remaining() < ROW_BYTES) cut();
                ended = ended + 1;
            }
            if (ended >= awaited) LockSupport.unpark(sender);
            return true;
        }

        /** Take down that it was refused by the call that hands it over, if this error proves it, or is unknown. */
        void end(Throwable error, boolean neverTaken) {
            if (end(neverTaken && isInSend() ? FAIL : UNKNOWN, partition, 0, -1, 0)) noticeError(error);
        }
    }

    // ---- frames

    static ByteBuffer newRows() {
        ByteBuffer fresh = ByteBuffer.allocate(HEAD_BYTES + ROWS * ROW_BYTES);
        fresh.position(HEAD_BYTES);
        return fresh;
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

    /** What a session's library says that it has published. */
    void sayPublished() {
        long[] last = lastSequenceIds();
        if (last.length > 0) say('P', "{" + quoted(LAST_IDS) + ": " + Arrays.toString(last) + "}");
    }

    void say(char kind, long number) {
        frames.add(ByteBuffer.allocate(13).put((byte) kind).putInt(8).putLong(number).array());
    }

    /** Writes every frame, and every few milliseconds what is in the buffer, and how many were sent, until all is written. */
    void write() {
        try (OutputStream out = new FileOutputStream(FileDescriptor.out)) {
            long cutNs = System.nanoTime(), said = 0, published = 0;
            while (true) {
                byte[] frame = frames.poll(FLUSH_NS, TimeUnit.NANOSECONDS);
                if (frame != null) out.write(frame);
                else if (written && frames.isEmpty()) return; // the last one may have come between the two looks
                if (System.nanoTime() - cutNs >= FLUSH_NS) {
                    long now = sent;
                    boolean any;
                    synchronized (rowsLock) {
                        any = rows.position() > HEAD_BYTES;
                    }
                    if (any || now > said) cut();
                    long settled = ended; // whoever has cut their rows
                    if (settled > published && payloadBytes > WORD_BYTES) sayPublished();
                    published = settled;
                    said = now;
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
                    case "after":
                        after = Arrays.stream(words[1].split(",")).mapToLong(Long::parseLong).toArray();
                        break;
                    case "stop":
                        stopped = true;
                        break;
                    case "finish":
                        finishing = true;
                        break;
                    case "begin":
                    case "settle":
                    case "commit":
                    case "abort":
                        calls.add(words);
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
                if (isNoise(record)) return;
                say('L', record.getLevel() + " " + text + (record.getThrown() == null ? "" : " " + one(record.getThrown())));
                noticeLine(record, text);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        });
        root.setLevel(Level.INFO);
    }

    void noticeError(Throwable error) {
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

    // ---- small things

    static void daemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    static String one(Throwable error) {
        return (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("\\s+", " ");
    }

    static String object(Map<String, String> settings) {
        List<String> pairs = new ArrayList<>();
        for (Map.Entry<String, String> each : settings.entrySet()) {
            pairs.add(quoted(each.getKey()) + ": " + quoted(each.getValue()));
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
}
