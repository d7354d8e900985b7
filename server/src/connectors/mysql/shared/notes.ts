/** The notes on the pages of the two connectors: what they guarantee and what they cannot do. */

export const sourceNotes = `
Streams are tables and views as \`table\` (in \`database\`) or \`database.table\` (a part that holds a dot is written in double quotes),
and the names in \`queries\`. Every read is one read-only transaction with one consistent snapshot; tables of engines other than InnoDB
have none, and the log says so.

**Full refresh** streams the whole stream. It does not resume: after a lost attempt it starts over, and destinations show nothing of it
before its end.

**Incremental** reads in the order of \`cursor_field\`, and resumes after its last checkpoint. Rows that share the last value are
distinguished by the primary key (or all columns), so none is lost or read twice, including those that arrive later with the same value.
If more than 5,000 rows share one value, that list is truncated, and the log says so. Rows without a value are read in the first run only. Rows that
arrive late, with a value lower than the last, need \`lookback_seconds\`, which reads that much of the past again and therefore needs
\`write\` upsert. An index on the cursor column keeps the reads short; a text as cursor is compared by its bytes and uses none.
The state is \`{"cursor": "<value as text>", …}\`; to backfill, set it to an earlier value; to start over, delete it.

**Columns** are selected, renamed and hashed in the database: \`hash\` is the hex SHA-256 of the value's text, and excluded columns
never leave the server.

**Types**

| MySQL | here |
|---|---|
| TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT, signed or not | int16, int32 or int64, whichever holds them; BIGINT UNSIGNED is decimal(20,0) |
| DECIMAL(p,s) | decimal(p,s) |
| FLOAT, DOUBLE | float32, float64, with every digit they hold |
| BIT(n), YEAR | int64 (BIT(64): decimal(20,0)), int16 |
| CHAR, VARCHAR, TEXT, ENUM, SET | text, from any character set; with the character set binary: bytes |
| BINARY, VARBINARY, BLOB, geometry, VECTOR | bytes, as the server stores them |
| DATE, DATETIME | date, timestamp |
| TIMESTAMP | timestamptz, in UTC |
| TIME | interval, because it reaches from -838:59:59 to 838:59:59 |
| JSON, UUID | json, uuid |

Dates that do not exist (\`0000-00-00\`, \`2024-02-00\`) are read as null, and the log counts them; see \`zero_dates\`.

**TLS**: the default \`tls.mode\` is prefer, which encrypts if the server can but does not verify its identity; use verify-full, with
\`ca\` for a private certificate authority, across networks you do not trust. Without TLS the password is never sent: neither in clear
text, nor encrypted with a key that the server sent. An account with caching_sha2_password then needs \`server_public_key\`, unless the
server has its password cached. Plugins: mysql_native_password, caching_sha2_password and, within TLS, mysql_clear_password.

A query is described before it runs and must be one SELECT. A row may have at most 128 MB.
MySQL 8 and 9, MariaDB 10.6 or later. Tested with MariaDB 10.11; **MySQL itself was never run**.
`.trim()

export const destinationNotes = `
Rows arrive by LOAD DATA LOCAL, or by INSERT where the server has \`local_infile\` off, and every checkpoint is one transaction together
with its mark, a row in the table \`_sluice_marks\` of the database. So each row is there exactly once, whatever fails: a worker, a connection
in the middle of COMMIT, or an older attempt that comes back. Do not change that table, and include it in backups of the data. The target
must be a table of InnoDB; one of another engine is refused. A server that asks for a file of this machine is refused: only the rows of
our own statement are ever sent.

**append** adds the rows of every run. **upsert** merges every checkpoint by \`primary_key\`: of several records with the same key the last
wins, and a record without a key fails the run. A new table gets a primary key, an existing one a unique index on those columns; a table
with another unique index is refused, because MySQL would merge by that one too. Texts in the key may have 255 characters.
If a key column of an existing table has a collation that ignores case, accents or trailing blanks, keys that differ only in those are
merged, and the log warns and says how to change it.
**replace** loads into a staging table and publishes by one RENAME TABLE: readers see the old or the new rows, never a mixture. The new
table has the indexes, defaults and comments of the old one, and grants stay. Where foreign keys or triggers hang on the table, its rows
are exchanged in one transaction instead; if other tables refer to it, rows are matched by the primary key. A transaction that began
during the load, and reads the table for the first time after the swap, may find it without the newest rows. A run without any
records leaves the old rows, unless \`allow_empty\` is set.
**Quarantine** (\`on_error\`): a row that the server refuses (SQLSTATE classes 22 and 23, a check, SIGNAL in a trigger) or would not take
as it is, is found by loading its batch again in halves. Rows are collected in a table of our own first, which is slower than without. With
upsert, an earlier record of the same key stays if the last one is refused.
A source that cannot resume is staged in append and upsert as well, and published at its end.
Tables that begin with \`_sluice_\` are ours; later runs drop those that are left over.

**Types** come from the source where it has them, else from the values, without loss.

| here | MySQL |
|---|---|
| boolean | TINYINT(1) |
| int16, int32, int64 | SMALLINT, INT, BIGINT |
| decimal(p,s) | the same, up to 65 digits |
| decimal | DECIMAL(65,30); a value with more digits turns the column into LONGTEXT |
| float32, float64 | FLOAT, DOUBLE; NaN and infinity turn the column into LONGTEXT |
| text, bytes | LONGTEXT, LONGBLOB |
| date, time, timestamp | DATE, TIME(6), DATETIME(6) |
| timestamptz | DATETIME(6) in UTC, because a TIMESTAMP ends in 2038 |
| json, lists | LONGTEXT with the JSON as it is, because MySQL's JSON rounds long numbers; JSON functions work on it |
| interval, uuid | LONGTEXT, CHAR(36) |

What MySQL has no type of its own for is named in the comment of the column (\`sluice:uuid\`); leave it there. From MySQL to MySQL, types
keep their names where possible. New tables compare texts by their bytes (utf8mb4, without padding).
With \`schema_change\` evolve, new fields add columns, and a type or a value that does not fit widens its column to one that
holds both: more digits, int64 or float64 to decimal, date to timestamp, else text. discard drops new fields and what does not fit, fail ends
the run. Columns are never dropped or narrowed. Columns that the server generates are left alone. A value that MySQL would cut, round or
leave out (a text too long for a VARCHAR, a year beyond 9999) fails the checkpoint, and nothing of it is loaded.

**Names** are kept as they are, up to 64 bytes; \`Id\` and \`id\` are one name to MySQL, so the second gets a number. In JSON lines,
U+0000 and lone surrogates become U+FFFD, and the log counts them.

The user needs SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX and CREATE TEMPORARY TABLES on the database.
MySQL 8 and 9, MariaDB 10.6 or later. Tested with MariaDB 10.11; **MySQL itself was never run**.

## Example

Orders of a shop into a warehouse on the same server, every hour only what changed. As an administrator of the server:

\`\`\`sql
CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE DATABASE warehouse CHARACTER SET utf8mb4;
CREATE TABLE shop.orders (
  id bigint unsigned PRIMARY KEY,
  customer varchar(100) NOT NULL,
  total decimal(12,2) NOT NULL,
  changed_at timestamp(6) NOT NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6),
  KEY (changed_at)
);
INSERT INTO shop.orders (id, customer, total) VALUES (1, 'Ada', 9.99), (2, 'Grace', 120.00);
CREATE USER sluice_reader@'%' IDENTIFIED BY 'choose-one-Reader1';
GRANT SELECT ON shop.* TO sluice_reader@'%';
CREATE USER sluice_loader@'%' IDENTIFIED BY 'choose-one-Loader1';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, CREATE TEMPORARY TABLES ON warehouse.* TO sluice_loader@'%';
\`\`\`

The body of \`POST /api/pipelines\`:

\`\`\`json
{
  "name": "orders to the warehouse",
  "schedule": "0 * * * *",
  "config": {
    "source": {
      "name": "mysql",
      "stream": "orders",
      "config": {
        "host": "db.example.com",
        "database": "shop",
        "user": "sluice_reader",
        "password": "choose-one-Reader1"
      }
    },
    "destination": {
      "name": "mysql",
      "config": {
        "host": "db.example.com",
        "database": "warehouse",
        "user": "sluice_loader",
        "password": "choose-one-Loader1"
      }
    },
    "sync": { "mode": "incremental", "cursor_field": "changed_at", "write": "upsert", "primary_key": ["id"] }
  }
}
\`\`\`

After \`POST /api/pipelines/{id}/run\` the table \`warehouse.orders\` has both orders. Change one and run again: it is read and merged alone.
`.trim()
