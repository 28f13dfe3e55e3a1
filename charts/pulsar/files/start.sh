#!/bin/bash
# Start one part of Pulsar in its container: start.sh metadata|zookeeper|bookie|broker|functions|proxy
#
# tini is the container's first process and this script its only child. The script becomes the JVM by `exec`, so the
# number in /hold/pid is the JVM's: `kill -9 $(cat /hold/pid)` is a crash, and tini ends the container with 137.
#
# Who kills may hold the restart: /hold outlives the container, and /hold/until has the epoch second before which
# nothing is started (ten minutes at most). Removing the file ends the hold at once. While held there is no /hold/pid.
set -eu

readonly PULSAR=/pulsar/bin/pulsar
readonly CONF=/tmp/pulsar.conf
readonly LONGEST_HOLD_S=600
readonly LONGEST_WAIT_S=600

hold() {
  rm -f /hold/pid
  local latest=$(($(date +%s) + LONGEST_HOLD_S))
  while (($(date +%s) < $(until_second) && $(date +%s) < latest)); do sleep 0.2; done
  rm -f /hold/until
  echo $$ >/hold/pid
}

until_second() {
  local second
  second=$(cat /hold/until 2>/dev/null || true)
  [[ $second =~ ^[0-9]{1,12}$ ]] && echo "$second" || echo 0
}

# Wait until a port answers. ZooKeeper's service answers once its pod is ready, with the cluster's metadata in it.
await() {
  local latest=$(($(date +%s) + LONGEST_WAIT_S))
  until timeout 10 bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null; do
    if (($(date +%s) > latest)); then
      echo "$1:$2: got no answer within $LONGEST_WAIT_S s; every wait is bounded; look at the pods of this release" >&2
      exit 1
    fi
    sleep 1
  done
}

# An address that stays when the pod comes back elsewhere.
own_address() { echo "$HOSTNAME.$DOMAIN"; }

# What a cluster must hold before its first bookie starts is written while nobody else can reach ZooKeeper. What is there
# already stays, so this runs whenever the pod is started.
metadata() {
  cp /config/zookeeper.conf "$CONF"
  echo "clientPortAddress=127.0.0.1" >>"$CONF"
  PULSAR_ZK_CONF=$CONF "$PULSAR" zookeeper &
  local zookeeper=$!
  await 127.0.0.1 2181
  "$PULSAR" initialize-cluster-metadata --cluster "$CLUSTER" \
    --metadata-store zk:127.0.0.1:2181 --configuration-metadata-store zk:127.0.0.1:2181 \
    --web-service-url "http://$SERVICE:8080" --broker-service-url "pulsar://$SERVICE:6650"
  kill "$zookeeper"
  wait "$zookeeper" || true
}

bookie() {
  hold
  await "$ZOOKEEPER" 2181
  cp /config/bookkeeper.conf "$CONF"
  echo "advertisedAddress=$(own_address)" >>"$CONF"
  PULSAR_BOOKKEEPER_CONF=$CONF exec "$PULSAR" bookie
}

broker() {
  hold
  await "$ZOOKEEPER" 2181
  cp /config/broker.conf "$CONF"
  local loopback=127.0.0.1:$((FIRST_PORT + ${HOSTNAME##*-}))
  {
    echo "advertisedAddress=$(own_address)"
    echo "advertisedListeners=internal:pulsar://$(own_address):6650,loopback:$SCHEME://$loopback"
  } >>"$CONF"
  PULSAR_BROKER_CONF=$CONF exec "$PULSAR" broker
}

# A JVM that its container begins with has the same process number each time. So each life of the worker gets a number of
# its own, the second in which it began: its functions write it into what they make, and /hold/life has it.
functions() {
  rm -f /hold/life
  hold
  await "$SERVICE" 8080
  local life
  life=$(date +%s)
  echo "$life" >/hold/life
  export PULSAR_EXTRA_OPTS="$PULSAR_EXTRA_OPTS -Ddedup.life=$life"
  PULSAR_WORKER_CONF=/config/functions.yml exec "$PULSAR" functions-worker
}

case $1 in
  metadata) metadata ;;
  zookeeper) PULSAR_ZK_CONF=/config/zookeeper.conf exec "$PULSAR" zookeeper ;;
  bookie) bookie ;;
  broker) broker ;;
  functions) functions ;;
  proxy)
    await "$ZOOKEEPER" 2181
    PULSAR_PROXY_CONF=/config/proxy.conf exec "$PULSAR" proxy
    ;;
esac
