#!/bin/bash
# What a Spark pod runs, in the words that Spark's Kubernetes scheduler uses: `driver ARGUMENT…`, `executor`; anything
# else is a command. Spark's own images have such a script; PySpark from PyPI has none.
set -eu
case ${1:-} in
    driver)
        shift
        set -- "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
            --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
            --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
            "$@"
        ;;
    executor)
        # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …: one option each, in that order.
        options=()
        number=0
        while name=SPARK_JAVA_OPT_$number && [ -n "${!name:-}" ]; do
            options+=("${!name}")
            number=$((number + 1))
        done
        set -- "$JAVA_HOME/bin/java" "${options[@]}" \
            "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
            -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}:$SPARK_HOME/jars/*" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" \
            --executor-id "$SPARK_EXECUTOR_ID" \
            --cores "$SPARK_EXECUTOR_CORES" \
            --app-id "$SPARK_APPLICATION_ID" \
            --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
            --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
esac
exec /usr/bin/tini -s -- "$@"
