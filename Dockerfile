# One file, four images: `operator` watches experiments, `runner` is what produces, consumes and injects faults in pods,
# `clients` is what produces where the client under test is a program, `spark` verifies. docs/images.md says how to build them.
#
# Each target is a tower of layers, the slowest to change at the bottom: a Python (BASE), Debian packages, the locked Python
# packages of that image's extra, programs that no Debian or Python package brings (`make image-parts` puts them under
# build/parts), and on top our own code as plain files. So a change of our code makes one small layer anew.
#
# Every image runs as a user who is not root, writes nowhere but where a volume is mounted (/tmp), and has tini for
# process 1. pip is there only while it installs. What it needs on a network of its own (a mirror, a certificate) comes by two
# optional secrets, `pip.conf` and `ca.pem`, and stays in no layer.

ARG BASE=python:3.12-slim
# The time that a build writes into files, in seconds since 1970: the builder's `--build-arg` of this name, if there is one. It
# also makes compiled modules know their source by its content, for a builder may give all files one time.
ARG SOURCE_DATE_EPOCH=0

# What all images have in common: process 1, a user, and a Python environment that finds our code in /usr/local/dedup/code.
FROM ${BASE} AS common
ARG SOURCE_DATE_EPOCH
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install --yes --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/* /var/log/* \
 && useradd --uid 1000 --user-group --home-dir /tmp --shell /usr/sbin/nologin dedup \
 && python3 -m venv --without-pip /usr/local/dedup \
 && cd /usr/local/dedup/lib/python3*/site-packages \
 && echo /usr/local/dedup/code >dedup.pth
ENV PATH=/usr/local/dedup/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["/usr/bin/tini", "--"]

FROM common AS operator
ARG SOURCE_DATE_EPOCH
LABEL org.opencontainers.image.title="dedup-operator" \
      org.opencontainers.image.description="Runs DedupExperiments in a Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY requirements-operator.lock /usr/local/dedup/requirements.lock
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    python3 -m venv /tmp/pip \
 && PIP_CONFIG_FILE=/run/secrets/pip.conf /tmp/pip/bin/pip --python /usr/local/dedup/bin/python \
        install --require-hashes --requirement /usr/local/dedup/requirements.lock \
 && rm -rf /tmp/pip
COPY build/parts/operator /usr/local/bin
COPY core/dedup /usr/local/dedup/code/dedup
COPY operator/dedup_operator /usr/local/dedup/code/dedup_operator
COPY charts/kafka /usr/local/dedup/charts/kafka
COPY charts/pulsar /usr/local/dedup/charts/pulsar
COPY charts/strimzi-kafka /usr/local/dedup/charts/strimzi-kafka
USER 1000:1000
CMD ["python", "-m", "dedup_operator", "--settings=/etc/dedup/settings.yaml", "--lease=dedup-operator"]

FROM common AS runner
ARG SOURCE_DATE_EPOCH
LABEL org.opencontainers.image.title="dedup-runner" \
      org.opencontainers.image.description="Producers, consumers and fault injectors of dedup experiments" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
 && apt-get install --yes --no-install-recommends iproute2 nftables openssl postgresql-client \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/* /var/log/*
COPY requirements-runner.lock /usr/local/dedup/requirements.lock
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    python3 -m venv /tmp/pip \
 && PIP_CONFIG_FILE=/run/secrets/pip.conf /tmp/pip/bin/pip --python /usr/local/dedup/bin/python \
        install --require-hashes --requirement /usr/local/dedup/requirements.lock \
 && rm -rf /tmp/pip
# The driver of a service that is tested (consumer.service); psql, above, counts the rows that it has written.
COPY lab/dedup_lab/systems/locks/psycopg.lock /usr/local/dedup/psycopg.lock
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    python3 -m venv /tmp/pip \
 && PIP_CONFIG_FILE=/run/secrets/pip.conf /tmp/pip/bin/pip --python /usr/local/dedup/bin/python \
        install --require-hashes --no-deps --only-binary :all: --requirement /usr/local/dedup/psycopg.lock \
 && rm -rf /tmp/pip
COPY build/parts/runner /usr/local/bin
# What the chart of a Pulsar takes into its function worker.
COPY build/parts/functions /usr/local/dedup/functions
COPY core/dedup /usr/local/dedup/code/dedup
COPY runners/dedup_runners /usr/local/dedup/code/dedup_runners
# A run's pod shares /tmp, where its programs start, with code that is not ours (docs/decisions/101).
ENV PYTHONSAFEPATH=1
USER 1000:1000
CMD ["python"]

FROM common AS java
ARG SOURCE_DATE_EPOCH
RUN apt-get update \
 && mkdir -p /usr/share/man/man1 \
 && apt-get install --yes --no-install-recommends default-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/* /var/log/*
ENV JAVA_HOME=/usr/lib/jvm/default-java

# A runner with all clients that are programs: a folder for each version, with what starts it (docs/decisions/112). Of a client for
# Python the library is installed here, by its lock; WITHOUT names those that the base's Python has no wheel of.
FROM java AS clients
ARG SOURCE_DATE_EPOCH
LABEL org.opencontainers.image.title="dedup-clients" \
      org.opencontainers.image.description="Producers of dedup experiments whose client is a program" \
      org.opencontainers.image.licenses="Apache-2.0"
ARG WITHOUT=""
COPY requirements-runner.lock /usr/local/dedup/requirements.lock
COPY lab/dedup_lab/clients/locks /usr/local/dedup/locks
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    python3 -m venv /tmp/pip \
 && export PIP_CONFIG_FILE=/run/secrets/pip.conf \
 && /tmp/pip/bin/pip --python /usr/local/dedup/bin/python \
        install --require-hashes --requirement /usr/local/dedup/requirements.lock \
 && for lock in /usr/local/dedup/locks/*.txt; do \
        name=$(basename "$lock" .txt); \
        case " $WITHOUT " in *" $name "*) continue ;; esac; \
        /tmp/pip/bin/pip --python /usr/local/dedup/bin/python install --no-compile --require-hashes --no-deps \
            --only-binary :all: --target "/usr/local/dedup/clients/$name/site" --requirement "$lock" || exit 1; \
    done \
 && rm -rf /tmp/pip
COPY build/parts/clients /usr/local/dedup/clients
COPY core/dedup /usr/local/dedup/code/dedup
COPY runners/dedup_runners /usr/local/dedup/code/dedup_runners
ENV PYTHONSAFEPATH=1
USER 1000:1000
CMD ["python"]

# PySpark's home becomes /opt/spark, where Spark's users and its operator look for it. What verification never uses stays
# out: streaming state on disk (RocksDB), Hive, Spark Connect, machine learning, and native code for other systems. Of
# histories in S3 Spark itself knows nothing: our Python code reads them (dedup/history/stores.py).
FROM java AS spark
ARG SOURCE_DATE_EPOCH
LABEL org.opencontainers.image.title="dedup-spark" \
      org.opencontainers.image.description="Verifies histories of dedup experiments on Spark" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY requirements-spark.lock /usr/local/dedup/requirements.lock
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    python3 -m venv /tmp/pip \
 && PIP_CONFIG_FILE=/run/secrets/pip.conf /tmp/pip/bin/pip --python /usr/local/dedup/bin/python \
        install --require-hashes --requirement /usr/local/dedup/requirements.lock \
 && rm -rf /tmp/pip \
 && cd /usr/local/dedup/lib/python3*/site-packages \
 && mv pyspark /opt/spark \
 && ln -s /opt/spark pyspark \
 && cd /opt/spark \
 && rm -rf data examples R sbin licenses \
 && cd jars \
 && rm -f *-osx-* *-windows-* *-riscv64* rocksdbjni-* hive-* spark-hive* datanucleus-* derby-* spark-connect_* \
        spark-mllib_* breeze_* spire_* cats-kernel_* algebra_* arpack* lapack-* JTransforms-* \
 && useradd --uid 185 --gid 0 --home-dir /tmp --shell /usr/sbin/nologin spark
COPY spark/entrypoint.sh /opt/spark/entrypoint.sh
COPY core/dedup /usr/local/dedup/code/dedup
COPY report/dedup_report /usr/local/dedup/code/dedup_report
COPY spark/dedup_spark /usr/local/dedup/code/dedup_spark
ENV SPARK_HOME=/opt/spark PATH=/opt/spark/bin:$PATH PYSPARK_PYTHON=/usr/local/dedup/bin/python3
# Not above: there lies pyspark/pandas, which Python would take for pandas.
WORKDIR /opt/spark/work-dir
USER 185:0
ENTRYPOINT ["/opt/spark/entrypoint.sh"]
