-- The fleet's questions, for ClickHouse from 18.16 on. duckdb.sql asks the same of files.

-- name: time
-- Where the fleet's exit time goes: by reason and device, the largest first.
SELECT reason, served_by, exits, ns, round(100 * ns / (SELECT sum(total_ns) FROM trapline.exits), 2) AS percent,
  p[1] AS p50_ns, if(exits < 100, NULL, p[2]) AS p99_ns FROM (
  SELECT reason, ifNull(device, '-') AS served_by, count() AS exits, sum(total_ns) AS ns,
    quantilesExact(0.5, 0.99)(total_ns) AS p
  FROM trapline.exits GROUP BY reason, served_by
) ORDER BY ns DESC, reason, served_by LIMIT {limit};

-- name: outliers
-- Hosts whose p99 of a device is more than {factor} times the median of all hosts' p99.
SELECT one.1 AS host, served_by, one.2 AS exits, one.3 AS p99_ns, fleet_ns, round(p99_ns / fleet_ns, 2) AS times FROM (
  SELECT served_by, groupArray((host, exits, p99)) AS each, quantileExact(0.5)(p99) AS fleet_ns FROM (
    SELECT host, ifNull(device, '-') AS served_by, count() AS exits, quantileExact(0.99)(total_ns) AS p99
    FROM trapline.exits GROUP BY host, served_by HAVING exits >= {least}
  ) GROUP BY served_by
) ARRAY JOIN each AS one
WHERE p99_ns > {factor} * fleet_ns ORDER BY times DESC, host, served_by LIMIT {limit}
SETTINGS distributed_group_by_no_merge = 1;

-- name: rollout
-- Before and after {at} (nanoseconds of the wall clock): where the mean or the p99 changed most.
SELECT reason, served_by, sumIf(exits, NOT after) AS exits_before, sumIf(exits, after) AS exits_after,
  anyIf(mean, NOT after) AS mean_before, anyIf(mean, after) AS mean_after,
  anyIf(p99, NOT after) AS p99_before, anyIf(p99, after) AS p99_after FROM (
  SELECT reason, ifNull(device, '-') AS served_by, assumeNotNull(wall_ns) >= {at} AS after, count() AS exits,
    round(avg(total_ns)) AS mean, quantileExact(0.99)(total_ns) AS p99
  FROM trapline.exits WHERE wall_ns IS NOT NULL GROUP BY reason, served_by, after
) GROUP BY reason, served_by HAVING exits_before >= {least} AND exits_after >= {least}
ORDER BY abs(log(p99_after + 1) - log(p99_before + 1)) DESC, reason, served_by LIMIT {limit};

-- name: around
-- The exits around one: those of its host and session within {ns} ns of {start_ns}.
SELECT start_ns, total_ns, vm, vcpu, tid, cpu, reason, detail, device, preempted_ns, blocked_ns, preempted_by, woken_by
FROM trapline.exits WHERE host = '{host}' AND session = '{session}'
  AND start_ns + total_ns >= {start_ns} - {ns} AND start_ns <= {start_ns} + {ns}
ORDER BY start_ns, tid LIMIT {limit};
