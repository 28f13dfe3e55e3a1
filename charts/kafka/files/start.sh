#!/bin/sh
# One node's start, under tini. Arguments: the node's number, its address, and the first of the ports that clients are told.
#
# Whoever kills this node writes the epoch second until which it is to stay down into /hold/until, and kills the process
# that /hold/pid names with SIGKILL: the container ends with exit code 137, the kubelet starts it again, and here it waits.
set -eu
number=$1 address=$2 first_port=$3

rm -f /hold/pid

# A hold lasts ten minutes at most, whatever the file says; what is no number holds nothing.
last=$(($(date +%s) + 600))
until=$(cat /hold/until 2>/dev/null || true)
case $until in '' | *[!0-9]*) until=0 ;; esac
[ "$until" -lt "$last" ] || until=$last
while [ "$(date +%s)" -lt "$until" ]; do
  sleep 1
done
rm -f /hold/until

settings=/tmp/server.properties
{
  cat /etc/dedup/server.properties
  echo "node.id=$number"
  echo "advertised.listeners=INTERNAL://$address:9092,CLIENT://127.0.0.1:$((first_port + number))"
} >"$settings"

# Formatting gives a new folder the cluster's id; a folder that has one keeps it.
[ -e /data/log/meta.properties ] ||
  KAFKA_HEAP_OPTS=-Xmx128m /opt/kafka/bin/kafka-storage.sh format --cluster-id "$CLUSTER_ID" --config "$settings"

# `exec` keeps the process id, all the way to Java.
echo $$ >/hold/pid
exec /opt/kafka/bin/kafka-server-start.sh "$settings"
