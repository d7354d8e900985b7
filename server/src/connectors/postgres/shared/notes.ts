/** The notes on the pages of the two connectors: what they guarantee and what they cannot do. */

export const sourceNotes = `
Streams are tables, views and materialized views as \`schema.table\` (a part that holds a dot is written in double quotes), and the
names in \`queries\`. Every read is one read-only transaction with one consistent snapshot.

**Full refresh** reads the whole stream by COPY. A table above 64 MB is read by \`parallel\` sessions under one exported snapshot
(PostgreSQL 14 and later). It does not resume: after a lost attempt it starts over, and destinations show nothing of it before its end.

**Incremental** reads in the order of \`cursor_field\`, and resumes after its last checkpoint. Rows that share the last value are
distinguished by the primary key (or all columns), so none is lost or read twice, including those that arrive later with the same value.
If more than 5,000 rows share one value, that list is truncated, and the log says so. Rows without a value are read in the first run
only; later runs count them and warn. A text column is a poor cursor, because 10 sorts before 9, and the log says so.

Transactions that take a number or a time and commit late are not lost: the read first notes the highest value, then waits until every
transaction that has written to the tables of the stream has ended (at most \`wait_for_writers_seconds\`), then reads up to that value.
If one does not end in time, the log says which rows could be missed. On a standby, writers cannot be seen, and the log says so too.
Not covered are sequences with a CACHE, and values that a program takes before it starts to write. Rows that arrive even later with a
value lower than the last need \`lookback_seconds\`, which reads that much of the past again and therefore needs \`write\` upsert.
An index on the cursor column keeps all of this fast.
The state is \`{"cursor": "<value as text>", …}\`; to backfill, set it to an earlier value; to start over, delete it.

**Columns** are selected, renamed and hashed in the database: \`hash\` is the hex SHA-256 of the value's text, and excluded columns
never leave the server.

**Types** keep their names. Enums and types of extensions are read as text, composite types as jsonb, money as numeric, domains as
their base type.

**Private addresses**: a server in a private network, or on the machine of the service, must be allowed by the operator, with its
port: \`EGRESS_ALLOW=10.0.0.5:5432\` or \`EGRESS_ALLOW=localhost:5432\`.

**TLS**: the default \`tls.mode\` is prefer, which encrypts if the server can but does not verify its identity; use verify-full, with
\`ca\` for a private certificate authority, across networks you do not trust. Unix sockets, files named in an address, service files and
password files are refused.

**Poolers**: PgBouncer and similar poolers in transaction mode work, as in session mode. Every statement runs inside a transaction, and
settings apply to that transaction only, so your application finds the pool's connections unchanged. A read uses one of them until it
ends, or \`parallel\` of them for a large table if the pool has room. No \`ignore_startup_parameters\` is needed.

A query is described before it runs and must be one SELECT. Table names in queries are resolved by the role's search path.
A row may have at most 128 MB, and a server at most 250,000 tables.
PostgreSQL 11 or later.
`.trim()

export const destinationNotes = `
Rows arrive by COPY and every checkpoint is one transaction together with its mark, a row in the table \`_sluice_marks\` of the
target schema. So each row is there exactly once, whatever fails: a worker, a connection in the middle of COMMIT, or an older attempt that
comes back. Do not change that table, and include it in backups of the data. If several roles load into one schema, all need
SELECT, INSERT and UPDATE on it; if a release adds columns to it,
its owner must load first, or run the statement that the error shows.

**append** adds the rows of every run. **upsert** merges every checkpoint by \`primary_key\`: of several records with the same key the last
wins, and a record without a key fails the run. The table gets a primary key, or an existing one a unique index, on those columns.
**replace** loads into a staging table and publishes in one transaction: readers see the old or the new rows, never a mixture, even
with an older snapshot. If nothing depends on the table, the new one takes its name, with owner, grants, comments and
indexes; if views, foreign keys, triggers or policies depend on it, or the role does not own it, its rows are exchanged instead. If rows of
other tables reference it, rows are matched by the primary key, and a missing row that is still referenced fails the run and leaves
the old rows. A run without any records leaves the old rows too, unless \`allow_empty\` is set.
A source that cannot resume is staged in append and upsert as well, and published at its end. Tables that begin with
\`_sluice_s_\` are such stages; later runs drop them.

**Slow sources** keep no transaction open while they read. A custom source that rarely sets \`self.state\` is held in memory up to 4 MB,
then written to an unlogged table that begins with \`_sluice_b_\`, in short transactions; the checkpoint moves its rows and drops it. Any
other source gets a checkpoint after five seconds at the latest once its transaction has begun. \`ALTER TABLE\` runs before the rows, in a
transaction of its own that waits one second for its lock, steps back so that readers get past, and tries again.

**Types** come from the source where it has them, else from the values, without loss: integers are int8 or numeric, decimals numeric
with every digit, ISO 8601 strings date, timestamp or timestamptz (as an instant: the offset it was written in is not kept), nested
values jsonb, everything else text. A field that was only null so far has no column yet. With \`schema_change\` evolve, new fields add columns,
and a type or a value that does not fit widens its column to one that holds both without rounding or cutting: more digits, int8 or float8
to numeric, date to timestamp, anything together with nested values to jsonb, else text. Times with and without a zone in one field become text.
discard drops new fields and what does not fit, fail ends the run. The first run of a new table may always shape it. Columns are never
dropped or narrowed. Columns that the server generates are left alone; a GENERATED ALWAYS identity takes the values of new
rows, and existing rows keep theirs. A replaced table is analyzed before it becomes visible.

**Quarantine** (\`on_error\`): a row that the server refuses (SQLSTATE classes 22 and 23, a view's check option, RAISE in a trigger,
a row too large) is found by loading its batch again in halves, in savepoints. Rows are copied in batches of a megabyte for that, which is
slower than without. Deferred constraints are checked with each batch, so a row that refers to a later one may be refused. If rows of a
\`replace\` violate a unique index, the first of them stays, and rows are exchanged. With upsert, an earlier record of the same key
stays if the last one is refused.

**Binary form**: from a PostgreSQL source, and with \`run.keep_output\` false, rows travel in PostgreSQL's binary form, which takes
the two servers about a third less time than text. Both tables must have the same types: numbers, booleans, text, times, uuid, json, bytea,
network addresses, bit strings, and arrays of these. If one column differs, or has another type (ranges, xml, geometry, text
search), all rows travel as text, with the same result. If somebody changes a type in the middle of such a run, the attempt fails without
a trace, and the next one sends text.

**Names** are kept as they are; names longer than 63 bytes are shortened and end in a hash. U+0000 and lone surrogates, which PostgreSQL
cannot store, become U+FFFD, and the log counts them.

**Poolers** in transaction mode work, as in session mode: settings, locks and temporary tables end with their transaction. One connection
of the pool is enough.

**Private addresses**: a server in a private network, or on the machine of the service, must be allowed by the operator, with its
port: \`EGRESS_ALLOW=10.0.0.5:5432\` or \`EGRESS_ALLOW=localhost:5432\`.

Several pipelines may write to one table: their checkpoints take turns. The role needs CREATE on the schema (which is created if the role
may create it), and must own a table whose columns are to change. PostgreSQL 12 or later.
`.trim()
