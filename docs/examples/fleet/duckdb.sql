-- The questions of clickhouse.sql for DuckDB, on the files that trapline export wrote: `exits` is a
-- view of them.

-- name: time
SELECT reason, coalesce(device, '-') AS served_by, count(*) AS exits, sum(total_ns)::UBIGINT AS ns,
  round(100 * sum(total_ns) / (SELECT sum(total_ns) FROM exits), 2) AS percent,
  quantile_disc(total_ns, 0.5) AS p50_ns,
  CASE WHEN count(*) >= 100 THEN quantile_disc(total_ns, 0.99) END AS p99_ns
FROM exits GROUP BY ALL ORDER BY ns DESC, reason, served_by LIMIT {limit};

-- name: outliers
WITH hosts AS (
  SELECT host, coalesce(device, '-') AS served_by, count(*) AS exits, quantile_disc(total_ns, 0.99) AS p99_ns
  FROM exits GROUP BY ALL HAVING count(*) >= {least}
), fleet AS (SELECT served_by, quantile_disc(p99_ns, 0.5) AS fleet_ns FROM hosts GROUP BY ALL)
SELECT host, served_by, exits, p99_ns, fleet_ns, round(p99_ns / fleet_ns, 2) AS times
FROM hosts JOIN fleet USING (served_by)
WHERE p99_ns > {factor} * fleet_ns ORDER BY times DESC, host, served_by LIMIT {limit};

-- name: rollout
SELECT reason, coalesce(device, '-') AS served_by,
  count(*) FILTER (wall_ns::UBIGINT < {at}) AS exits_before, count(*) FILTER (wall_ns::UBIGINT >= {at}) AS exits_after,
  round(avg(total_ns) FILTER (wall_ns::UBIGINT < {at})) AS mean_before,
  round(avg(total_ns) FILTER (wall_ns::UBIGINT >= {at})) AS mean_after,
  quantile_disc(total_ns, 0.99) FILTER (wall_ns::UBIGINT < {at}) AS p99_before,
  quantile_disc(total_ns, 0.99) FILTER (wall_ns::UBIGINT >= {at}) AS p99_after
FROM exits GROUP BY ALL HAVING exits_before >= {least} AND exits_after >= {least}
ORDER BY abs(ln(p99_after + 1) - ln(p99_before + 1)) DESC, reason, served_by LIMIT {limit};

-- name: around
SELECT start_ns, total_ns, vm, vcpu, tid, cpu, reason, detail, device, preempted_ns, blocked_ns, preempted_by, woken_by
FROM exits WHERE host = '{host}' AND session = '{session}'
  AND start_ns + total_ns >= {start_ns} - {ns} AND start_ns <= {start_ns} + {ns}
ORDER BY start_ns, tid LIMIT {limit};
