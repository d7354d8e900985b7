/** The pages of the two connectors: what they promise and what they cannot do. */

export const sourceNotes = `
Streams are tables, views and materialized views as \`schema.table\` (a part that holds a dot is written in double quotes), and the
names in \`queries\`. Every read is one read-only transaction at one moment of the database.

**Full refresh** reads the whole stream by COPY. A table above 64 MB is read by \`parallel\` sessions under one exported snapshot
(PostgreSQL 14 and later). It does not resume: a lost attempt begins again, and destinations show nothing of it before its end.

**Incremental** reads in the order of \`cursor_field\`, and resumes after its last checkpoint. Rows that share the last value are told
apart by the primary key (or all columns), so none is lost or read twice, also one that arrives later with the same value. Above
5,000 rows with one value that list is cut, and the log says so. Rows without a value are read in the first run only. Rows that
arrive late, with a value lower than the last, need \`lookback_seconds\`, which reads that much of the past again and therefore needs
\`write\` upsert. An index on the cursor column keeps the reads short.
The state is \`{"cursor": "<value as text>", …}\`; to back-fill, set it to an earlier value, to begin anew, delete it.

**Columns** are chosen, renamed and hashed in the database: \`hash\` is the hex SHA-256 of the value's text, and what is excluded
never leaves the server.

**Types** keep their names. Enums and types of extensions are read as text, composite types as jsonb, money as numeric, domains as
the type they are made of.

**TLS**: \`tls.mode\` is prefer unless set, which encrypts where the server can but does not prove who it is; use verify-full, with
\`ca\` for an authority of your own, across networks you do not trust. Unix sockets, files named in an address, service files and
password files are refused.

A query is described before it runs and must be one SELECT. Queries find their tables by the search path of the role.
A row may have at most 128 MB, and a server at most 250,000 tables.
PostgreSQL 11 or later.
`.trim()

export const destinationNotes = `
Rows arrive by COPY and every checkpoint is one transaction together with its mark, a row in the table \`_sluice_marks\` of the
target schema. So each row is there once, whatever dies: a worker, a connection in the middle of COMMIT, or an older attempt that
comes back. Do not change that table, and keep it with the data in backups. Where several roles load into one schema, all need
SELECT, INSERT and UPDATE on it.

**append** adds the rows of every run. **upsert** merges every checkpoint by \`primary_key\`: of several records with one key the last
wins, and a record without a key fails the run. The table gets a primary key, or an existing one a unique index, on those columns.
**replace** loads beside the old rows and publishes in one transaction: readers see the old or the new rows, never a mixture, also
those that hold an older snapshot. Where nothing hangs on the table the new one takes its name, with owner, grants, comments and
indexes; where views, foreign keys, triggers or policies do, or the role does not own it, its rows are exchanged instead. Where rows of other tables refer to it,
rows are matched by the primary key, and one that is gone but still referred to fails the run and leaves the old rows. A run without
any record leaves the old rows too, unless \`allow_empty\` is set.
A source that cannot resume is loaded beside the table in append and upsert as well, and published at its end. Tables that begin with
\`_sluice_s_\` are such loads; later runs drop them.

**Types** come from the source where it has them, else from the values, without loss: integers are int8 or numeric, decimals numeric
with every digit, ISO 8601 strings date, timestamp or timestamptz (as an instant: the offset it was written in is not kept), nested
values jsonb, all else text. A field that was only null so far has no column yet. With \`schema_change\` evolve, new fields add columns,
and a type or a value that does not fit widens its column to one that holds both without rounding or cutting: more digits, int8 or float8
to numeric, date to timestamp, anything beside nested values to jsonb, else text. Times with a zone and without one meet in text.
discard drops new fields and what does not fit, fail ends the run. The first run of a new table may always shape it. Columns are never
dropped or narrowed. Columns that the server generates are left alone; an identity that is GENERATED ALWAYS takes the values of new
rows, and rows that are there keep theirs. A table that was replaced is analysed before it is shown.

**Names** are kept as they are; above 63 bytes they are cut and end in a hash. U+0000 and halves of surrogate pairs, which PostgreSQL
cannot store, become U+FFFD, and the log counts them.

Several pipelines may write one table: their checkpoints take turns. The role needs CREATE on the schema (which is created if it may
create it), and must own a table whose columns are to change. PostgreSQL 12 or later.
`.trim()
