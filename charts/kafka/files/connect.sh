#!/bin/bash
# Kafka Connect's start, once there is a database and a broker: without them it would end, and wait longer each time.
set -eu

await() {
  until (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; do
    echo "waits for $1:$2"
    sleep 1
  done
}

await "$DATABASE" 5432
await "$BROKER" 9092
exec /kafka/bin/connect-standalone.sh /etc/dedup/worker.properties /etc/dedup/outbox.properties
