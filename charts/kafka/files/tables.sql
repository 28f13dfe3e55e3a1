CREATE TABLE remembered (run text, stream integer, value bigint, PRIMARY KEY (run, stream, value));
CREATE TABLE payments (run text, life integer, partition integer, position bigint, stream integer, value bigint);
CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL,
  aggregateid text NOT NULL, type text NOT NULL, payload text NOT NULL);
