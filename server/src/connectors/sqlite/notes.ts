/** The notes on the page of the two connectors: what they guarantee and what they cannot do. */

export const sourceNotes = `
Give one of \`url\` and \`run_id\`. The streams are the tables and views of the file, by their names. The file is copied to the worker,
at most 16 GB of it, and decompressed if it is a .gz or .zst; one on a private address must be allowed by the operator (\`EGRESS_ALLOW\`).

**The file is not trusted.** It is opened read only, and nothing in it can reach anything else: no ATTACH, no extensions, no
functions with side effects in views and generated columns, no virtual tables (full-text and R-tree indexes are not read). A view that never
ends is ended by the time limit of the run, or by a cancel. A file in WAL mode is read without its \`-wal\`, so checkpoint it before you
upload it (\`PRAGMA wal_checkpoint(TRUNCATE)\`). A file that is encrypted, damaged or no SQLite database fails with a sentence that says so.

**Full refresh** streams the whole table. It does not resume: after a lost attempt it starts over, and destinations show nothing of it
before its end.

**Incremental** reads in the order of \`cursor_field\`, and resumes after its last checkpoint. Rows that share the last value are
distinguished by the primary key (or all columns), so none is lost or read twice, including those that arrive later with the same value.
Texts are compared by their bytes, so times must all be written in the same way; a column that holds numbers and texts cannot be a cursor.
Rows without a value are read in the first run only. \`lookback_seconds\` needs a cursor that is a time, written as text. The state is
\`{"cursor": "<value as text>", …}\`.

**Types.** SQLite stores any value in any column, whatever type is declared. So the declaration counts if the first 1,000 rows agree with
it, otherwise the column has the type of those rows (text, if they are of several kinds). A value that does not fit is still read, as
what it is, and the destination widens its column for it.

| Declared | here |
|---|---|
| names with INT | int64, all 64 bits |
| REAL, DOUBLE, FLOAT | float64 |
| DECIMAL(p,s), NUMERIC, DECIMAL TEXT | decimal; a text keeps every digit |
| BOOLEAN | boolean, if the values are 0 and 1 |
| TEXT, VARCHAR, CLOB | text, U+0000 included; what is not UTF-8 becomes U+FFFD |
| BLOB | bytes |
| DATE, TIME, DATETIME, TIMESTAMP, TIMESTAMPTZ | date, time, timestamp, timestamptz, if they are texts in ISO 8601; numbers stay numbers |
| UUID, INTERVAL | uuid, interval |
| names with JSON | json, if they are texts that hold JSON |
| none, or another | int64, float64, decimal, bytes or text, as the rows are |

A value may have at most 64 MB.`

export const destinationNotes = `
Every successful run has one database file as its output, with one table: download it with
\`GET /api/pipelines/runs/{run_id}/output\` (\`….sqlite\`, \`application/vnd.sqlite3\`), or read it with the source of this page and the
run's id.

**append** and **upsert** start from the file of the pipeline's last successful run, so the table grows from run to run. **replace**
starts with an empty one; a read without records keeps the old rows unless \`allow_empty\` is set. **upsert** merges by
\`primary_key\`, on which the table gets a unique index: of several records with the same key the last wins, and a record without a key
fails the run.

**Exactly once.** The run's own file becomes the next one in the same statement that finishes the run and saves its state. A run that
failed, was cancelled or lost its worker leaves nothing behind, and its next attempt starts from the same file. Because the file is the
output, \`keep_output\` must not be false. The last success's output never expires; if it was removed all the same, append and upsert fail
rather than go on without the earlier rows. \`DELETE /api/pipelines/{id}/state\` then lets the next run start over with a new file. So does
another \`table\`; any other change of the pipeline goes on with the same table, as it would in a database.

Each run stores a whole copy, compressed, for \`RUN_RETENTION_DAYS\`, and all of them count towards \`ORG_STORAGE_GB\`. While a run
finishes, the worker has the file in its temporary folder. For tables of many gigabytes use a database server.

**Schema.** The columns are those that the source declares, and every other field of any record. \`schema_change\`: evolve adds columns and
widens them (which copies the table); discard leaves out new fields and values that do not fit; fail fails the run before anything
changes.

| Here | SQLite |
|---|---|
| boolean | BOOLEAN: 0 or 1 |
| int16, int32, int64 | INTEGER |
| float32, float64 | REAL; NaN is the text NaN |
| decimal | DECIMAL(p,s), as numbers, while each survives as a double or is an integer; if one does not, DECIMAL TEXT, digit for digit. Without a declared type: REAL instead of DECIMAL |
| text | TEXT |
| bytes | BLOB |
| date, time, uuid, interval | DATE, TIME, UUID, INTERVAL TEXT: text |
| timestamp | TIMESTAMP: text, \`2024-01-31 12:00:00\` |
| timestamptz | TIMESTAMPTZ: text in UTC, \`2024-01-31 12:00:00+00:00\` |
| json, lists | JSON TEXT |

SQLite does not tell \`Id\` from \`id\`: the later of two such fields gets a number. A table has at most 2,000 columns.

## Example

Creatures in a table that is updated by every run:

\`\`\`json
{
  "name": "creatures to sqlite",
  "config": {
    "source": { "name": "dummy", "stream": "creatures", "config": { "records": 1000 } },
    "destination": { "name": "sqlite", "config": { "table": "creatures" } },
    "sync": { "write": "upsert", "primary_key": ["_record_id"] }
  }
}
\`\`\`

\`\`\`sh
call /pipelines -d @creatures.json            # the id of the pipeline
call /pipelines/$PIPELINE/run -X POST         # the id of the run
call /pipelines/runs/$RUN/output > creatures.sqlite
\`\`\`

\`\`\`sql
SELECT count(*), count(DISTINCT _record_id) FROM creatures
\`\`\`

The same table as the source of another pipeline:

\`\`\`json
{ "name": "sqlite", "stream": "creatures", "config": { "run_id": "00000000-0000-4000-8000-000000000000" } }
\`\`\`
`
