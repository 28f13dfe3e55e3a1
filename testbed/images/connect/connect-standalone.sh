#!/bin/bash
# Kafka's start script of a standalone worker. What the official one reads from the environment, it reads too: KAFKA_HEAP_OPTS,
# KAFKA_JVM_PERFORMANCE_OPTS, KAFKA_LOG4J_OPTS, KAFKA_OPTS, CLASSPATH. Java takes the script's place, and with it its process id.
set -eu
home=$(dirname "$(dirname "$(readlink -f "$0")")")
# Each of these is a list of words.
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xms256M -Xmx2G} ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC -Djava.awt.headless=true} \
    ${KAFKA_LOG4J_OPTS:--Dlog4j2.configurationFile=$home/config/log4j2.properties} \
    -cp "${CLASSPATH:+$CLASSPATH:}$home/libs/*" ${KAFKA_OPTS:-} org.apache.kafka.connect.cli.ConnectStandalone "$@"
