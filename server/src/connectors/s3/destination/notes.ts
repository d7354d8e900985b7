/** The destination's part of its page. The worked example is run by a test. */
export const destinationNotes = `### The manifest

A run writes objects to \`<prefix><folder>/\`, one or more for each checkpoint, named
\`<run>-<reading>-<checkpoint>-<number>.<format>\`. None of them counts before \`_manifest.json\` in the same folder lists it, and that
is written once, at the end of the run. So a reader that goes by the manifest sees whole runs only:

- \`append\` adds the objects of the run to the list.
- \`replace\` lists the objects of the run alone, then deletes those that it replaced. A run without records leaves the old ones,
  unless \`allow_empty\` is set.
- \`upsert\` is refused: an object store cannot change a record. Append, and choose the newest record of a key when you read.

A run that fails or is killed at any moment leaves the manifest as it was, and the next run of the pipeline deletes what it left.
Several pipelines may append to one folder. The manifest is changed by a conditional write (\`If-Match\`), so no writer overwrites
another, and a worker that was thought dead cannot publish. A store that refuses such writes still works, and the log says so: then
do not let several pipelines write to one folder. A manifest lists at most 100,000 objects.

Reading it with DuckDB:

\`\`\`sql
SET VARIABLE files = (SELECT list('s3://acme-lake/' || o.key)
  FROM (SELECT unnest(objects) AS o FROM read_json('s3://acme-lake/raw/orders/_manifest.json')));
SELECT * FROM read_parquet(getvariable('files'), union_by_name = true);
\`\`\`

### Formats

- **jsonl** holds the records byte for byte as the source delivered them. \`schema_change\` does not apply: a line has the fields
  it has.
- **csv** and **parquet** have the columns and types that the source declares; otherwise those that the manifest has for the folder,
  and new ones inferred from the records so far. A column that must become wider does so from that object on; objects that were
  written before keep their types, so read with \`union_by_name\` or the like. What does not fit any type of Parquet exactly
  is text. Nested values are JSON text.
- One CSV, JSON lines or JSON file of the [file](file.md) source becomes one parquet object, converted as a whole, and the output that
  the run keeps is that same file. It goes record by record, with the same values, where columns are chosen, records may be
  quarantined or objects go to folders.
- \`compression\` makes jsonl and csv objects \`.gz\` or \`.zst\` files; in parquet it is the codec of the pages.

With \`partition_by\` objects go to folders named as Hive does, \`country=DE/created_at_day=2026-11-16/\`. Missing and empty values
go to \`__HIVE_DEFAULT_PARTITION__\`. A time is cut as it is written, without converting its zone. The fields stay in the
objects. A checkpoint may make at most 500 folders.

### Permissions

The keys need \`s3:ListBucket\` on the bucket, and \`s3:GetObject\`, \`s3:PutObject\`, \`s3:DeleteObject\` and
\`s3:AbortMultipartUpload\` on its objects. A check with a stream writes an empty object under \`_sluice/\` and deletes it. An upload
in parts that a killed worker left behind costs storage until it is aborted; a lifecycle rule of the bucket does that
(\`AbortIncompleteMultipartUpload\`).

\`\`\`json
{
  "Version": "2012-10-17",
  "Statement": [
    { "Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::acme-lake" },
    {
      "Effect": "Allow",
      "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
      "Resource": "arn:aws:s3:::acme-lake/raw/*"
    }
  ]
}
\`\`\`

### Example: CSV exports to a partitioned Parquet table

Somebody drops CSV files into a bucket. Each run of this pipeline takes those that are new and appends them, as Parquet:

\`\`\`json
{
  "source": {
    "name": "s3",
    "stream": "orders",
    "config": {
      "bucket": "acme-exports",
      "endpoint": "https://minio.example.com",
      "prefix": "shop/",
      "glob": "**/*.csv",
      "access_key_id": "AKIAIOSFODNN7EXAMPLE",
      "secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    }
  },
  "destination": {
    "name": "s3",
    "config": {
      "bucket": "acme-exports",
      "endpoint": "https://minio.example.com",
      "prefix": "lake/",
      "format": "parquet",
      "partition_by": [{ "field": "created_at", "unit": "month" }],
      "access_key_id": "AKIAIOSFODNN7EXAMPLE",
      "secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    }
  },
  "sync": { "mode": "incremental", "write": "append" }
}
\`\`\`

With \`shop/orders/november.csv\` in the bucket,

\`\`\`csv
id,customer,created_at,total
1,Ada,2026-11-03T10:15:00Z,19.90
2,Grace,2026-11-28T18:00:00Z,120.00
3,Linus,2026-12-01T08:30:00Z,7.50
\`\`\`

the first run writes two objects, \`lake/orders/created_at_month=2026-11/…parquet\` and \`…=2026-12/…parquet\`, and this
\`lake/orders/_manifest.json\` (shortened):

\`\`\`json
{
  "columns": [
    { "name": "id", "type": "int64" },
    { "name": "customer", "type": "text" },
    { "name": "created_at", "type": "timestamptz" },
    { "name": "total", "type": "decimal(18,2)" }
  ],
  "objects": [{ "records": 2 }, { "records": 1 }]
}
\`\`\`

A second run reads nothing, until another file is there.`
