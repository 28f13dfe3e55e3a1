#!/bin/bash
# Pulsar's start script, as far as brokers, bookies, their metadata and functions go: `pulsar bookie|broker|zookeeper|…`, or the full
# name of a class. It reads from the environment what the official one reads: PULSAR_*_CONF for the configuration file,
# PULSAR_MEM, PULSAR_GC and PULSAR_EXTRA_OPTS (BOOKIE_* for a bookie), PULSAR_LOG_CONF, PULSAR_LOG_DIR. Java takes the
# script's place, and with it its process id.
set -eu
home=$(dirname "$(dirname "$(readlink -f "$0")")")
command=${1:?usage: pulsar COMMAND [ARGUMENT...]}
shift

memory=${PULSAR_MEM:--Xms256m -Xmx512m -XX:MaxDirectMemorySize=512m}
collector=${PULSAR_GC:--XX:+UseG1GC -XX:MaxGCPauseMillis=10}
extra=${PULSAR_EXTRA_OPTS:-}
zookeeper='-Dzookeeper.4lw.commands.whitelist=* -Dzookeeper.snapshot.trust.empty=true -Dzookeeper.tcpKeepAlive=true'
case $command in
    broker)
        options=-Dlog4j.shutdownHookEnabled=false
        set -- org.apache.pulsar.PulsarBrokerStarter --broker-conf "${PULSAR_BROKER_CONF:-$home/conf/broker.conf}" "$@" ;;
    bookie)
        options=
        memory=${BOOKIE_MEM:-$memory} collector=${BOOKIE_GC:-$collector} extra=${BOOKIE_EXTRA_OPTS:-}
        set -- org.apache.bookkeeper.server.Main --conf "${PULSAR_BOOKKEEPER_CONF:-$home/conf/bookkeeper.conf}" "$@" ;;
    functions-worker)
        options=
        set -- org.apache.pulsar.functions.worker.FunctionWorkerStarter \
            -c "${PULSAR_WORKER_CONF:-$home/conf/functions_worker.yml}" "$@" ;;
    zookeeper)
        options=$zookeeper
        set -- org.apache.zookeeper.server.quorum.QuorumPeerMain "${PULSAR_ZK_CONF:-$home/conf/zookeeper.conf}" "$@" ;;
    initialize-cluster-metadata)
        options=
        set -- org.apache.pulsar.PulsarClusterMetadataSetup "$@" ;;
    zookeeper-shell)
        options=$zookeeper
        set -- org.apache.zookeeper.ZooKeeperMain "$@" ;;
    *)
        options=
        set -- "$command" "$@" ;;
esac

opened=
for package in java.base/java.io java.base/java.util.zip java.base/java.lang java.base/java.nio java.base/jdk.internal.misc \
        java.base/jdk.internal.platform java.base/sun.net java.management/sun.management \
        jdk.management/com.sun.management.internal; do
    opened="$opened --add-opens=$package=ALL-UNNAMED"
done
drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadata
cd "$home"
# Each of these is a list of words, some with a star that must stay a star.
set -f
# shellcheck disable=SC2086
exec java $opened $options $memory $collector $extra \
    -cp "${PULSAR_EXTRA_CLASSPATH:+$PULSAR_EXTRA_CLASSPATH:}$home/lib/*" \
    -Dlog4j2.configurationFile="${PULSAR_LOG_CONF:-$home/conf/log4j2.properties}" \
    -Dlog4j2.is.webapp=false \
    -Dpulsar.log.dir="${PULSAR_LOG_DIR:-$home/logs}" \
    -Djute.maxbuffer=10485760 -Djava.net.preferIPv4Stack=true -Dio.netty.tryReflectionSetAccessible=true \
    -Dbookkeeper.metadata.bookie.drivers=${drivers}BookieDriver \
    -Dbookkeeper.metadata.client.drivers=${drivers}ClientDriver \
    "$@"
