#!/bin/bash
# Kafka's start scripts in one: under its own name it runs the class it is given, under a tool's name that tool. What
# the official scripts read from the environment, it reads too: KAFKA_HEAP_OPTS, KAFKA_JVM_PERFORMANCE_OPTS,
# KAFKA_LOG4J_OPTS, KAFKA_OPTS, CLASSPATH. Java takes the script's place, and with it its process id.
set -eu
home=$(dirname "$(dirname "$(readlink -f "$0")")")
heap=-Xmx256M
log=tools-log4j2.properties
case $(basename "$0") in
    kafka-server-start.sh) main=kafka.Kafka heap='-Xmx1G -Xms1G' log=log4j2.properties ;;
    kafka-storage.sh) main=kafka.tools.StorageTool ;;
    kafka-topics.sh) main=org.apache.kafka.tools.TopicCommand ;;
    kafka-configs.sh) main=kafka.admin.ConfigCommand ;;
    kafka-console-producer.sh) main=org.apache.kafka.tools.ConsoleProducer heap=-Xmx512M ;;
    kafka-console-consumer.sh) main=org.apache.kafka.tools.consumer.ConsoleConsumer heap=-Xmx512M ;;
    kafka-broker-api-versions.sh) main=org.apache.kafka.tools.BrokerApiVersionsCommand ;;
    kafka-metadata-quorum.sh) main=org.apache.kafka.tools.MetadataQuorumCommand ;;
    kafka-leader-election.sh) main=org.apache.kafka.tools.LeaderElectionCommand ;;
    kafka-reassign-partitions.sh) main=org.apache.kafka.tools.reassign.ReassignPartitionsCommand ;;
    kafka-consumer-groups.sh) main=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
    kafka-transactions.sh) main=org.apache.kafka.tools.TransactionsCommand ;;
    kafka-producer-perf-test.sh) main=org.apache.kafka.tools.ProducerPerformance heap=-Xmx512M ;;
    *) main= ;;
esac
fast='-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent'
# Each of these is a list of words.
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:-$heap} ${KAFKA_JVM_PERFORMANCE_OPTS:-$fast -Djava.awt.headless=true} \
    ${KAFKA_LOG4J_OPTS:--Dlog4j2.configurationFile=$home/config/$log} \
    -cp "${CLASSPATH:+$CLASSPATH:}$home/libs/*" ${KAFKA_OPTS:-} $main "$@"
