// A function of Pulsar that returns one output for each input: which message it was made from, and which process made it.
//
// An input begins with eight bytes that name its stream and value (core/dedup/payloads.py). The output has them, too, and
// where the payload of a send has session and attempt, it has the number of the process, or the one that its start has
// given it (a process that a container begins with has the same each time): so whoever reads the outputs knows which life
// of the worker has made each, by its own word. It needs nothing of Pulsar but to be called.

import java.nio.ByteBuffer;
import java.util.function.Function;
import java.util.zip.CRC32;

public final class OneOutputEach implements Function<byte[], byte[]> {
    static final int IDENTITY_BYTES = 8, SEND_BYTES = 28, CHECKSUM_BYTES = 4, NO_TRANSACTION = 0;
    static final int PROCESS = Integer.getInteger("dedup.life", (int) ProcessHandle.current().pid());

    @Override
    public byte[] apply(byte[] input) {
        ByteBuffer output = ByteBuffer.allocate(SEND_BYTES);
        output.put(input, 0, IDENTITY_BYTES).putInt(PROCESS).putInt(NO_TRANSACTION).put(input, 0, IDENTITY_BYTES);
        CRC32 sum = new CRC32();
        sum.update(output.array(), 0, SEND_BYTES - CHECKSUM_BYTES);
        return output.putInt((int) sum.getValue()).array();
    }
}
