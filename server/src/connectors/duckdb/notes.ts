/** The notes on the page of the two connectors: what they guarantee and what they cannot do. */

export const sourceNotes = `
Give one of \`url\` and \`run_id\`. The streams are the tables and views of the file, \`table\` in the schema main and \`schema.table\`
elsewhere, and the names in \`queries\`, each with one SELECT over them. The file is copied to the worker, at most 16 GB of it, and
decompressed if it is a .gz or .zst; one on a private address must be allowed by the operator (\`EGRESS_ALLOW\`).

**The file is not trusted.** It is attached read only to an engine that can reach nothing but the file's own temporary folder: no other
files, no network, no extensions, 64 MB of memory and what it writes to disk beyond that. A query that takes too long is ended by the
time limit of the run, or by a cancel. Files of DuckDB up to 1.5 are read; one that is newer, encrypted, damaged or no DuckDB database
fails with a sentence that says so.

**Full refresh** streams the whole table. It does not resume: after a lost attempt it starts over, and destinations show nothing of it
before its end.

**Incremental** reads in the order of \`cursor_field\`, some 10,000 rows at once, and resumes after its last checkpoint. Of a view or a
query the rows are first copied to the worker's disk. Rows that share the last value are
distinguished by the primary key (or all columns), so none is lost or read twice, including those that arrive later with the same value.
Rows without a value are read in the first run only. \`lookback_seconds\` needs a cursor that is a time. The state is
\`{"cursor": "<value as text>", …}\`.

| DuckDB | here |
|---|---|
| BOOLEAN | boolean |
| TINYINT to BIGINT, UTINYINT to UINTEGER | int16, int32 or int64, whichever holds them |
| UBIGINT, HUGEINT, UHUGEINT | decimal(20,0), decimal, decimal, with every digit |
| DECIMAL(p,s) | decimal(p,s) |
| FLOAT, DOUBLE | float32, float64 |
| VARCHAR, ENUM | text |
| BLOB, UUID, JSON | bytes, uuid, json |
| DATE, TIME, INTERVAL | date, time, interval |
| TIMESTAMP, TIMESTAMP_S, TIMESTAMP_MS | timestamp |
| TIMESTAMPTZ | timestamptz |
| TIMESTAMP_NS, TIMETZ, BIT | text, as DuckDB writes them, because no type here holds all of them |
| lists and arrays of numbers, texts, booleans, dates and UUIDs | lists of them |
| STRUCT, MAP, UNION, other lists | json; keys of a map are texts. One that holds NaN or an infinity is a text, as DuckDB writes it |`

export const destinationNotes = `
Every successful run has one database file as its output, with one table: download it with
\`GET /api/pipelines/runs/{run_id}/output\` (\`….duckdb\`, \`application/vnd.duckdb\`), or read it with the source of this page and the
run's id. It is written by DuckDB 1.5 in a form that versions from 1.0 on can read.

**append** and **upsert** start from the file of the pipeline's last successful run, so the table grows from run to run. **replace**
starts with an empty one; a read without records keeps the old rows unless \`allow_empty\` is set. **upsert** merges by
\`primary_key\`: of several records with the same key the last wins, and a record without a key fails the run. The table itself has no
key or index.

**Exactly once.** The run's own file becomes the next one in the same statement that finishes the run and saves its state. A run that
failed, was cancelled or lost its worker leaves nothing behind, and its next attempt starts from the same file. Because the file is the
output, \`keep_output\` must not be false. The last success's output never expires; if it was removed all the same, append and upsert fail
rather than go on without the earlier rows. \`DELETE /api/pipelines/{id}/state\` then lets the next run start over with a new file. So does
another \`table\`; any other change of the pipeline goes on with the same table, as it would in a database.

Each run stores a whole copy for \`RUN_RETENTION_DAYS\`, and all of them count towards \`ORG_STORAGE_GB\`. While a run finishes, the worker
has the file, and the new rows as CSV, in its temporary folder. For tables of many gigabytes use a database server.

**Schema.** The columns are those that the source declares, and every other field of any record. \`schema_change\`: evolve adds columns and
widens them; discard leaves out new fields and values that do not fit; fail fails the run before anything changes.

| Here | DuckDB |
|---|---|
| boolean | BOOLEAN |
| int16, int32, int64 | SMALLINT, INTEGER, BIGINT |
| float32, float64 | FLOAT, DOUBLE |
| decimal(p,s) | DECIMAL(p,s) |
| decimal without limits | DECIMAL with 18 or 38 digits, as the values need; with more digits DOUBLE if that is exact, else VARCHAR |
| text | VARCHAR |
| bytes, uuid, interval | BLOB, UUID, INTERVAL |
| date, time, timestamp, timestamptz | DATE, TIME, TIMESTAMP, TIMESTAMPTZ |
| json, lists | JSON |

DuckDB does not tell \`Id\` from \`id\`: the later of two such fields gets a number. A table has at most 2,000 columns.

## Example

Creatures in a table that is updated by every run:

\`\`\`json
{
  "name": "creatures to duckdb",
  "config": {
    "source": { "name": "dummy", "stream": "creatures", "config": { "records": 1000 } },
    "destination": { "name": "duckdb", "config": { "table": "creatures" } },
    "sync": { "write": "upsert", "primary_key": ["_record_id"] }
  }
}
\`\`\`

\`\`\`sh
call /pipelines -d @creatures.json            # the id of the pipeline
call /pipelines/$PIPELINE/run -X POST         # the id of the run
call /pipelines/runs/$RUN/output > creatures.duckdb
\`\`\`

\`\`\`sql
SELECT count(*), count(DISTINCT _record_id) FROM creatures
\`\`\`

A query over it as the source of another pipeline:

\`\`\`json
{
  "name": "duckdb",
  "stream": "first hundred",
  "config": {
    "run_id": "00000000-0000-4000-8000-000000000000",
    "queries": { "first hundred": "SELECT * FROM creatures ORDER BY _record_id LIMIT 100" }
  }
}
\`\`\`
`
