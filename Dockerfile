# One file, three images: `operator` watches experiments, `runner` is what produces, consumes and injects faults in pods,
# `spark` verifies. docs/images.md says how to build them.
#
# Each target is a tower of layers, the slowest to change at the bottom: a Python (BASE), Debian packages, the locked Python
# packages of that image's extra, programs and jars that no Debian or Python package brings (`make image-parts` puts
# them under build/parts), and on top our own code as plain files. So a change of our code makes one small layer anew.
#
# Every image runs as a user that is not root, writes nowhere but where a volume is mounted (/tmp), and has tini for
# process 1. What pip needs on a network of its own (a mirror, a certificate) comes by two optional secrets, `pip.conf`
# and `ca.pem`, and stays in no layer.

ARG BASE=python:3.12-slim

# The environment that is copied into the images, and a pip beside it that is not.
FROM ${BASE} AS packages
ENV PIP_CONFIG_FILE=/run/secrets/pip.conf PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv /usr/local/pip \
 && python3 -m venv --without-pip /usr/local/dedup \
 && for packages in /usr/local/dedup/lib/python3*/site-packages; do \
        echo /usr/local/dedup/code >"$packages/dedup.pth"; \
    done

FROM packages AS operator-packages
COPY requirements-operator.lock /requirements.lock
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    /usr/local/pip/bin/pip --python /usr/local/dedup/bin/python install --require-hashes -r /requirements.lock

FROM packages AS runner-packages
COPY requirements-runner.lock /requirements.lock
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    /usr/local/pip/bin/pip --python /usr/local/dedup/bin/python install --require-hashes -r /requirements.lock

# PySpark's home becomes /opt/spark, where Spark's users and its operator look for it, without what verification never uses:
# a key-value store on disk for streaming state, Hive, Spark Connect, machine learning, and other systems' libraries.
FROM packages AS spark-packages
COPY requirements-spark.lock /requirements.lock
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    /usr/local/pip/bin/pip --python /usr/local/dedup/bin/python install --require-hashes -r /requirements.lock
RUN cd /usr/local/dedup/lib/python3*/site-packages \
 && mv pyspark /opt/spark \
 && ln -s /opt/spark pyspark \
 && cd /opt/spark \
 && rm -rf data examples R sbin licenses jars/*-osx-* jars/*-windows-* jars/*-riscv64*

# What all images have in common: process 1 and a user.
FROM ${BASE} AS common
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install --yes --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
 && useradd --uid 1000 --user-group --home-dir /tmp --shell /usr/sbin/nologin dedup
ENV PATH=/usr/local/dedup/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["/usr/bin/tini", "--"]

FROM common AS operator
LABEL org.opencontainers.image.title="dedup-operator" \
      org.opencontainers.image.description="Runs DedupExperiments in a Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=operator-packages /usr/local/dedup /usr/local/dedup
COPY build/parts/operator /usr/local/bin
COPY core/dedup /usr/local/dedup/code/dedup
COPY operator/dedup_operator /usr/local/dedup/code/dedup_operator
USER 1000:1000
CMD ["python", "-m", "dedup_operator"]

FROM common AS runner
LABEL org.opencontainers.image.title="dedup-runner" \
      org.opencontainers.image.description="Producers, consumers and fault injectors of dedup experiments" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
 && apt-get install --yes --no-install-recommends iproute2 nftables openssl \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
COPY --from=runner-packages /usr/local/dedup /usr/local/dedup
COPY build/parts/runner /usr/local/bin
COPY core/dedup /usr/local/dedup/code/dedup
COPY runners/dedup_runners /usr/local/dedup/code/dedup_runners
USER 1000:1000
CMD ["python"]

FROM common AS java
RUN apt-get update \
 && mkdir -p /usr/share/man/man1 \
 && apt-get install --yes --no-install-recommends default-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
ENV JAVA_HOME=/usr/lib/jvm/default-java

FROM java AS spark
LABEL org.opencontainers.image.title="dedup-spark" \
      org.opencontainers.image.description="Verifies histories of dedup experiments on Spark" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=spark-packages /opt/spark /opt/spark
COPY --from=spark-packages /usr/local/dedup /usr/local/dedup
COPY build/parts/spark /opt/spark/jars
COPY spark/entrypoint.sh /opt/entrypoint.sh
COPY core/dedup /usr/local/dedup/code/dedup
COPY spark/dedup_spark /usr/local/dedup/code/dedup_spark
RUN useradd --uid 185 --gid 0 --home-dir /tmp --shell /usr/sbin/nologin spark
ENV SPARK_HOME=/opt/spark PATH=/opt/spark/bin:$PATH PYSPARK_PYTHON=/usr/local/dedup/bin/python3
WORKDIR /opt/spark
USER 185:0
ENTRYPOINT ["/opt/entrypoint.sh"]
