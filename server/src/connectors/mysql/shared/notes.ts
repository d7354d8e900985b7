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
