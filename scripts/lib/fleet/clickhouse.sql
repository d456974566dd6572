-- The fleet's questions, for ClickHouse from 18.16 on. duckdb.sql asks the same of files.

-- name: time
-- Where the fleet's exit time goes: by reason and device, the largest first.
SELECT reason, ifNull(device, '-') AS served_by, count() AS exits, sum(total_ns) AS ns,
  round(100 * sum(total_ns) / (SELECT sum(total_ns) FROM trapline.exits), 2) AS percent,
  quantileExact(0.5)(total_ns) AS p50_ns, if(count() < 100, NULL, quantileExact(0.99)(total_ns)) AS p99_ns
FROM trapline.exits GROUP BY reason, served_by ORDER BY ns DESC, reason, served_by LIMIT {limit};

-- name: outliers
-- Hosts whose p99 of a device is more than {factor} times the median of all hosts' p99.
SELECT host, served_by, exits, p99_ns, fleet_ns, round(p99_ns / fleet_ns, 2) AS times FROM (
  SELECT host, ifNull(device, '-') AS served_by, count() AS exits, quantileExact(0.99)(total_ns) AS p99_ns
  FROM trapline.exits GROUP BY host, served_by HAVING exits >= {least}
) ANY INNER JOIN (
  SELECT served_by, quantileExact(0.5)(p99_ns) AS fleet_ns FROM (
    SELECT host, ifNull(device, '-') AS served_by, count() AS exits, quantileExact(0.99)(total_ns) AS p99_ns
    FROM trapline.exits GROUP BY host, served_by HAVING exits >= {least}
  ) GROUP BY served_by
) USING served_by
WHERE p99_ns > {factor} * fleet_ns ORDER BY times DESC, host, served_by LIMIT {limit};

-- name: rollout
-- Before and after {at} (nanoseconds of the wall clock): where the mean or the p99 changed most.
SELECT reason, ifNull(device, '-') AS served_by,
  countIf(wall_ns < {at}) AS exits_before, countIf(wall_ns >= {at}) AS exits_after,
  round(avgIf(total_ns, wall_ns < {at})) AS mean_before, round(avgIf(total_ns, wall_ns >= {at})) AS mean_after,
  quantileExactIf(0.99)(total_ns, wall_ns < {at}) AS p99_before,
  quantileExactIf(0.99)(total_ns, wall_ns >= {at}) AS p99_after
FROM trapline.exits GROUP BY reason, served_by HAVING exits_before >= {least} AND exits_after >= {least}
ORDER BY abs(log(p99_after + 1) - log(p99_before + 1)) DESC, reason, served_by LIMIT {limit};

-- name: around
-- The exits around one: those of its host and session within {ns} ns of {start_ns}.
SELECT start_ns, total_ns, vm, vcpu, tid, cpu, reason, detail, device, preempted_ns, blocked_ns, preempted_by, woken_by
FROM trapline.exits WHERE host = '{host}' AND session = '{session}'
  AND start_ns + total_ns >= {start_ns} - {ns} AND start_ns <= {start_ns} + {ns}
ORDER BY start_ns, tid LIMIT {limit};

-- name: summary
-- The same as time, from the rows of --rows summary: percentiles come from the summed histograms.
SELECT reason, served_by, exits, ns, p50_ns, if(exits < 100, NULL, p99) AS p99_ns FROM (
  SELECT ifNull(reason, '-') AS reason, ifNull(device, '-') AS served_by, sum(total_ns) AS ns, sum(count) AS exits
  FROM trapline.summary GROUP BY reason, served_by
) ANY INNER JOIN (
  SELECT ifNull(reason, '-') AS reason, ifNull(device, '-') AS served_by,
    quantileExactWeighted(0.5)(value, times) AS p50_ns, quantileExactWeighted(0.99)(value, times) AS p99
  FROM trapline.summary ARRAY JOIN values AS value, counts AS times GROUP BY reason, served_by
) USING reason, served_by ORDER BY ns DESC, reason, served_by LIMIT {limit};
