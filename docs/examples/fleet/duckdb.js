// duckdb.js FOLDER < SQL: runs the statements in DuckDB (scripts/fetch duckdb), and prints the last one's table as a
// JSON list of rows of texts, the names of the columns first.
'use strict';
const {readFileSync} = require('node:fs');
const {createRequire} = require('node:module');
const {DuckDBInstance} = createRequire(process.argv[2] + '/')('@duckdb/node-api');

async function main() {
  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  let reader;
  for (const sql of readFileSync(0, 'utf8').split(/;\s*\n/)) {
    if (sql.trim()) reader = await connection.runAndReadAll(sql);
  }
  const text = (cell) => (cell === null ? '' : String(cell));
  console.log(JSON.stringify([reader.columnNames(), ...reader.getRows().map((row) => row.map(text))]));
}
main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
