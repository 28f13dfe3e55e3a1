#!/bin/sh
# PostgreSQL's start, in its own container. What it finds in /data is either whole or made anew.
set -eu
folder=/data/cluster

if [ ! -e "$folder" ]; then
  rm -rf /data/new
  initdb --pgdata=/data/new --username=postgres --auth-local=trust --auth-host=scram-sha-256 --pwfile=/secret/database \
    --encoding=UTF8 --locale=C
  echo 'host all all all scram-sha-256' >>/data/new/pg_hba.conf
  # Until its tables are there, it listens at a socket that no other container sees.
  pg_ctl --pgdata=/data/new --wait --options='-c listen_addresses= -c unix_socket_directories=/tmp' start
  psql --host=/tmp --username=postgres --no-psqlrc --quiet --variable=ON_ERROR_STOP=1 --file=/etc/dedup/tables.sql postgres
  psql --host=/tmp --username=postgres --no-psqlrc --quiet --variable=ON_ERROR_STOP=1 --file=/etc/dedup/capture.sql postgres
  pg_ctl --pgdata=/data/new --wait stop
  mv /data/new "$folder"
fi

exec postgres -D "$folder" -c 'listen_addresses=*' -c unix_socket_directories= -c dynamic_shared_memory_type=mmap \
  -c wal_level=logical -c max_wal_size=128MB -c shared_buffers=32MB
