/** The notes on the pages of the two connectors: what they guarantee and what they cannot do. */

export const sourceNotes = `
Streams are tables and views as \`table\` (in \`database\`) or \`database.table\` (a part that holds a dot is written in double quotes),
and the names in \`queries\`. A read is one SELECT over the HTTP interface, as a read-only statement, of the rows that the table has
when it begins. Tables of engines that merge rows, such as ReplacingMergeTree, are read with FINAL; see \`final\`.

ClickHouse can fail after it has begun to answer, and then ends its answer like a whole one. Every answer therefore carries an end of
its own, and one without it fails the run: an exception is never taken for rows, and a part never for the whole.

**Full refresh** streams the whole stream. It does not resume: after a lost attempt it starts over, and destinations show nothing of it
before its end.

**Incremental** reads in the order of \`cursor_field\`, and resumes after its last checkpoint. Rows that share the last value are
distinguished by \`primary_key\` where the pipeline names one, else by all columns (the sorting key of a table is not unique in ClickHouse),
so none is lost or read twice, including those that arrive later with the same value. If more than 5,000 rows share one value, that list is
truncated, and the log says so. Rows without a value are read in the first run only. Rows that arrive late, with a value lower than the last,
need \`lookback_seconds\`, which reads that much of the past again and therefore needs \`write\` upsert. The server sorts what it reads: a
sorting key that begins with the cursor column keeps this cheap.
The state is \`{"cursor": "<value as text>", …}\`; to backfill, set it to an earlier value; to start over, delete it.

**Columns** are selected, renamed and hashed in the database: \`hash\` is the hex SHA-256 of the value's text, and excluded columns
never leave the server.

**Types**

| ClickHouse | here |
|---|---|
| Int8 to Int64, UInt8 to UInt32 | int16, int32 or int64, whichever holds them |
| UInt64, Int128, UInt128, Int256, UInt256 | decimal with as many digits as they can have |
| Decimal(p,s), Float32, Float64, BFloat16 | decimal(p,s), float32, float64, float32 |
| Bool, UUID, Date, Date32 | boolean, uuid, date |
| DateTime, DateTime64 up to microseconds, of any time zone | timestamptz, in UTC |
| DateTime64 with more digits | text in UTC, with all of them |
| String, FixedString | text in UTF-8, FixedString without the zero bytes at its end; bytes where \`binary_columns\` names the column |
| Enum, IPv4, IPv6, Time, Interval | text |
| Array, Map, Tuple, Nested, JSON, Variant, Dynamic, Point and other shapes | json, with every digit; NaN and infinities are strings there |
| LowCardinality(T), Nullable(T), SimpleAggregateFunction(f, T) | as T |
| AggregateFunction | left out, and the log says so |

A String that is not UTF-8 and not named in \`binary_columns\` fails the run and names the column.

**TLS**: \`secure\` is on unless you switch it off; the certificate must be from a public authority. Without TLS the password is sent in
clear text. The user needs SELECT on the tables and may not have \`readonly = 1\`, because statements carry settings; \`readonly = 2\` is enough.
A row may have at most 128 MB. ClickHouse 24.3 or later. Tested with chdb 26.9, the engine of ClickHouse as a library, behind an HTTP front
of our own; **a ClickHouse server was never run**.
`.trim()

export const destinationNotes = `
Rows are collected in a staging table that nobody reads, and become visible together at the end of the run. Each checkpoint is sent as
inserts of up to 8 MB, each one block with a deduplication token of its own (\`async_insert\` off): an insert that arrives twice, after a crash or a lost
answer, is left out by the server. So each row is there exactly once, whatever fails between us and the server. The target is
a table of the MergeTree family in the database of the settings; replicated and distributed tables and views are refused, and so is ClickHouse
Cloud, where every table is replicated.

**append** moves the staged parts into the table, all of a partition at once. **replace** exchanges the two tables in one step
(EXCHANGE TABLES, which needs a database with the engine Atomic): readers see the old or the new rows, never a mixture. The new table has
the keys, settings and columns of the old one. A run without any records leaves the old rows, unless \`allow_empty\` is set.
**upsert** needs a table with the engine ReplacingMergeTree(\`_sluice_version\`), sorted by \`primary_key\`, and creates one: of several records with
the same key the last one counts. ClickHouse merges rows in the background, so **readers have to use FINAL** (\`SELECT … FROM t FINAL\`, or the setting
\`final = 1\`), or they see older rows too. A record without a key fails the run.

A new table for append and replace has no sorting key. Create the table yourself to choose one, with partitions, codecs or a TTL;
it is kept, also by replace.

**Materialized views** on the table see what append and upsert load: rows are then inserted by one statement per 8 MB instead of moved, and
become visible one after the other. For that the table needs \`non_replicated_deduplication_window\` (tables that we create have it), and
so do the tables behind the views; otherwise the run is refused, with the statement that sets it. If such a run ends while it
publishes and is never resumed, its first rows stay. Of rows that replace others, views see nothing.

**What is not guaranteed**: ClickHouse has no transactions. If the server itself dies in the middle of moving parts, some of them may
be visible until the run is resumed. A worker that was paused for so long that its run was given up, and that wakes up in the middle of
publishing, is stopped by the marks in \`_sluice_marks\` and because its staging table is gone, except in the moment between its look at the marks and its
statement. Do not change that table.
Tables that begin with \`_sluice_\` are ours; the next run of the pipeline drops those that are left over.

**Types** come from the source where it has them, else from the values, without loss. Columns are Nullable, except those of the key.

| here | ClickHouse |
|---|---|
| boolean | Bool |
| int16, int32, int64 | Int16, Int32, Int64 |
| decimal(p,s) | the same, up to 76 digits |
| decimal | Decimal(76, 38); a value with more digits, or NaN, turns the column into String |
| float32, float64 | Float32, Float64 |
| text | String |
| date | Date32 |
| timestamp, timestamptz | DateTime64(6, 'UTC') |
| uuid | UUID |
| json, lists | String with the JSON as it is, because the type JSON rounds long numbers; JSON functions work on it |
| bytes, time, interval | String; bytes as they are |

What ClickHouse has no type of its own for is named in the comment of the column (\`sluice:json\`); leave it there. From ClickHouse to ClickHouse,
numbers, times and addresses keep their types. ClickHouse does not refuse values that are too large: it wraps, cuts or shifts them. So
values are checked before they are sent: dates and times before 1900 or after 2299 turn their column into String.
With \`schema_change\` evolve, new fields add columns, and a type or a value that does not fit widens its column to one that holds both: more
digits, int64 to decimal, date to timestamp, else String. Columns of a sorting key cannot change their type: such a run fails. discard drops new
fields and what does not fit, fail ends the run. Columns are never dropped or narrowed, and those that the server computes are left alone.

**Names** are kept as they are, up to 80 bytes. In JSON lines, U+0000 and lone surrogates become U+FFFD, and the log counts them.
A checkpoint is held in memory until it is stored, about 16 MB; a source that has no place to resume for longer than that needs more.

The user needs SELECT, INSERT, ALTER, CREATE TABLE and DROP TABLE on the database. A server that is too busy (too many parts, too many statements)
is asked again for almost a minute, and then by the retries of the run.
ClickHouse 24.3 or later, one server. Tested with chdb 26.9, the engine of ClickHouse as a library, behind an HTTP front of our own; **a ClickHouse
server was never run**.

## Example

Orders of a shop into a warehouse on the same server, every hour only what changed. As an administrator of the server:

\`\`\`sql
CREATE DATABASE shop;
CREATE DATABASE warehouse;
CREATE TABLE shop.orders (
  id UInt64,
  customer String,
  total Decimal(12, 2),
  changed_at DateTime64(6, 'UTC') DEFAULT now64(6)
) ENGINE = ReplacingMergeTree(changed_at) ORDER BY id;
INSERT INTO shop.orders (id, customer, total) VALUES (1, 'Ada', 9.99), (2, 'Grace', 120.00);
CREATE USER sluice_reader IDENTIFIED BY 'choose-one-Reader1';
GRANT SELECT ON shop.* TO sluice_reader;
CREATE USER sluice_loader IDENTIFIED BY 'choose-one-Loader1';
GRANT SELECT, INSERT, ALTER, CREATE TABLE, DROP TABLE ON warehouse.* TO sluice_loader;
\`\`\`

The body of \`POST /api/pipelines\`, for a server without TLS on its own port:

\`\`\`json
{
  "name": "orders to the warehouse",
  "schedule": "0 * * * *",
  "config": {
    "source": {
      "name": "clickhouse",
      "stream": "orders",
      "config": {
        "host": "db.example.com",
        "database": "shop",
        "user": "sluice_reader",
        "password": "choose-one-Reader1",
        "secure": false
      }
    },
    "destination": {
      "name": "clickhouse",
      "config": {
        "host": "db.example.com",
        "database": "warehouse",
        "user": "sluice_loader",
        "password": "choose-one-Loader1",
        "secure": false
      }
    },
    "sync": { "mode": "incremental", "cursor_field": "changed_at", "write": "upsert", "primary_key": ["id"] }
  }
}
\`\`\`

After \`POST /api/pipelines/{id}/run\`, \`SELECT * FROM warehouse.orders FINAL\` has both orders. Insert a newer row for one of them and run again:
it is read and merged alone.
`.trim()
