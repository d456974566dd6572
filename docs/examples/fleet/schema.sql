-- The fleet's tables, on every shard (fleet schema). Columns are those of docs/formats/rows.md,
-- with the batch and the day that fleet load adds. {cluster} is the cluster in the servers'
-- configuration. A host's rows are all on one shard: that of halfMD5(host).

CREATE DATABASE IF NOT EXISTS trapline;

CREATE TABLE IF NOT EXISTS trapline.exits_local (
  batch UInt32, day Date, rows_version UInt8, host String, session String,
  vm Nullable(Int32), vcpu Nullable(Int32), tid Int32,
  start_ns UInt64, total_ns Nullable(UInt64), kernel_ns Nullable(UInt64), user_ns Nullable(UInt64), preempted_ns Nullable(UInt64), blocked_ns Nullable(UInt64), halted_ns Nullable(UInt64),
  reason String, detail Nullable(String), device Nullable(String), handler Nullable(String),
  function Nullable(String), stack Nullable(String), rip String, injected Nullable(UInt32),
  preempted_by Nullable(Int32), cpu UInt32, woken_by Nullable(String), wall_ns Nullable(UInt64),
  boot Nullable(String), nested Nullable(String), halt UInt8
) ENGINE = MergeTree PARTITION BY day ORDER BY (host, session, batch, start_ns);

CREATE TABLE IF NOT EXISTS trapline.exits AS trapline.exits_local
ENGINE = Distributed({cluster}, trapline, exits_local, halfMD5(host));
