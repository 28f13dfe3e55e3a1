// What an application asks of Pulsar's own client (Java): to take messages, to write others, and to acknowledge, in transactions.
//
// The application itself is in Python (dedup_runners/clients/processing_pulsar_java.py) and is killed there. Its orders are lines on
// standard input, each answered by lines on standard output, of which the last begins with "done" or "error". When standard input
// ends, the application is gone, and this ends at once, without a farewell to any broker: for brokers it was killed, too.
//
//     take P N MS       at most N messages of partition P, waiting so long for the first: "message LEDGER ENTRY BATCH PAYLOAD" each
//     begin             a transaction
//     write P PAYLOAD   one message to partition P of the outputs, in the transaction; it is not waited for
//     settle            until what was written is stored
//     ack P LEDGER ENTRY W  W is "within" the transaction, or "outside"; brokers have confirmed it when it is answered
//     commit, abort     the transaction
//
// An error says first whether the transaction was aborted ("aborted"), which its batch can follow again, or not ("failed").

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;
import org.apache.pulsar.PulsarVersion;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;

public final class PulsarJavaApplication {
    static final int PARENT_GONE = 70;

    final PrintStream out = System.out;
    final List<Consumer<byte[]>> consumers = new ArrayList<>();
    final List<Producer<byte[]>> producers = new ArrayList<>();
    final Map<String, MessageId> taken = new HashMap<>();
    final List<CompletableFuture<?>> written = new ArrayList<>();
    long transactionMs, patienceMs;
    PulsarClient client;
    Transaction transaction;

    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PulsarJavaApplication application = new PulsarJavaApplication();
        try {
            application.open(new Json(orders.readLine()).object());
            application.say("done", "pulsar-client " + PulsarVersion.getVersion() + ", Java " + System.getProperty("java.version"));
        } catch (Exception error) {
            application.say("error failed", one(error));
        }
        for (String order; (order = orders.readLine()) != null; ) application.answer(order.split(" "));
        Runtime.getRuntime().halt(PARENT_GONE);
    }

    void open(Map<String, Object> asked) throws Exception {
        transactionMs = (Long) asked.get("transaction_ms");
        patienceMs = (Long) asked.get("patience_ms");
        ClientBuilder builder = PulsarClient.builder().serviceUrl((String) asked.get("bootstrap")).enableTransaction(true);
        if (asked.get("listener") != null) builder.listenerName((String) asked.get("listener"));
        client = builder.build();
        long partitions = (Long) asked.get("partitions");
        for (long partition = 0; partition < partitions; partition++) {
            String suffix = partitions == 1 ? "" : "-partition-" + partition;
            producers.add(client.newProducer().topic(asked.get("outputs") + suffix).enableBatching(false)
                .sendTimeout(0, TimeUnit.SECONDS).create());
            consumers.add(client.newConsumer().topic(asked.get("topic") + suffix)
                .subscriptionName((String) asked.get("subscription")).isAckReceiptEnabled(true)
                .acknowledgmentGroupTime(0, TimeUnit.SECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe());
        }
    }

    void answer(String[] order) {
        try {
            carryOut(order);
            say("done", "");
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            say(aborted(order[0]) ? "error aborted" : "error failed", one(cause));
        }
    }

    void carryOut(String[] order) throws Exception {
        switch (order[0]) {
            case "take":
                take(Integer.parseInt(order[1]), Integer.parseInt(order[2]), Integer.parseInt(order[3]));
                break;
            case "begin":
                transaction = wait(client.newTransaction().withTransactionTimeout(transactionMs, TimeUnit.MILLISECONDS).build());
                break;
            case "write":
                written.add(producers.get(Integer.parseInt(order[1])).newMessage(transaction).value(bytes(order[2])).sendAsync());
                break;
            case "settle":
                for (CompletableFuture<?> each : written) wait(each);
                written.clear();
                break;
            case "ack":
                Consumer<byte[]> consumer = consumers.get(Integer.parseInt(order[1]));
                MessageId place = taken.get(order[1] + " " + order[2] + " " + order[3]);
                boolean within = order[4].equals("within");
                wait(within ? consumer.acknowledgeAsync(place, transaction) : consumer.acknowledgeAsync(place));
                break;
            case "commit":
                wait(transaction.commit());
                transaction = null;
                break;
            case "abort":
                wait(transaction.abort());
                transaction = null;
                break;
            default:
                throw new IllegalArgumentException("no order " + order[0]);
        }
    }

    /** After an error within a transaction: whether that could be aborted, so that its batch can be processed again. */
    boolean aborted(String order) {
        if (transaction == null || order.equals("commit") || order.equals("abort")) return false;
        written.clear();
        try {
            wait(transaction.abort());
            return true;
        } catch (Exception error) {
            return false;
        } finally {
            transaction = null;
        }
    }

    void take(int partition, int most, int withinMs) throws Exception {
        for (int count = 0; count < most; count++) {
            Message<byte[]> message = consumers.get(partition).receive(count == 0 ? withinMs : 1, TimeUnit.MILLISECONDS);
            if (message == null) return;
            MessageIdImpl at = (MessageIdImpl) message.getMessageId();
            int batch = at instanceof BatchMessageIdImpl ? ((BatchMessageIdImpl) at).getBatchIndex() : 0;
            taken.put(partition + " " + at.getLedgerId() + " " + at.getEntryId(), message.getMessageId());
            say("message", at.getLedgerId() + " " + at.getEntryId() + " " + Math.max(0, batch) + " " + hex(message.getValue()));
        }
    }

    <T> T wait(CompletableFuture<T> answer) throws Exception {
        return answer.get(patienceMs, TimeUnit.MILLISECONDS);
    }

    void say(String word, String rest) {
        out.print((word + " " + rest).trim() + "\n");
        out.flush();
        if (out.checkError()) Runtime.getRuntime().halt(PARENT_GONE);
    }

    static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int at = 0; at < found.length; at++) found[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        return found;
    }

    static String hex(byte[] bytes) {
        StringBuilder found = new StringBuilder();
        for (byte each : bytes) found.append(String.format("%02x", each));
        return found.toString();
    }

    static String one(Throwable error) {
        return (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("\\s+", " ");
    }
}
