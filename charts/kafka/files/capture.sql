-- Whom change data capture logs in as: one that may read the database's log, and is no superuser.
\set password `cat /secret/capture`
SET log_min_error_statement TO panic;
CREATE ROLE connect LOGIN REPLICATION PASSWORD :'password';
GRANT CREATE ON DATABASE postgres TO connect;
ALTER TABLE outbox OWNER TO connect;
