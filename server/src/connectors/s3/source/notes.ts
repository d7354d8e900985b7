/** The source's part of its page. The worked example is run by a test. */
import { providers } from '../providers.ts'

export const sourceNotes = `### Streams and objects

A stream is a folder below \`prefix\`: every object in it, at any depth, that matches \`glob\`. \`*\` is the prefix itself. Names
in a glob are relative to the folder of the stream; \`*\` is anything within a segment, \`**\` anything, \`?\` one character,
\`{a,b}\` one of several. Objects with a segment that begins with \`_\` or \`.\` are not data and are left out, as other tools do.

Every row, line or element of an array is a record, without a \`_record_id\`. CSV, JSON lines, JSON and Parquet are read as the [file](file.md) source reads
them; gzip and zstd are recognised by the first bytes. Types are inferred by the destination from the values, because the
objects of a stream need not agree. A CSV is first copied to a temporary file on the worker. Of a Parquet object only the footer
and a few row groups at a time are fetched.

### What an incremental read guarantees

It needs no \`cursor_field\`. New objects are read in the order of their \`Last-Modified\` times, and the pipeline remembers
which versions it has read.

- Every object is read once, however many share a time.
- An object that is overwritten is read again, as a whole, even if its content is the same: a store gives it a new time. Records
  that were read before stay in the destination unless it upserts.
- An object that appears late, with an older time, is read as long as it is not more than \`late_hours\` older than the newest.
  (A multipart upload has the time of its beginning.) The pipeline remembers the 50,000 newest objects; if more than that come
  within \`late_hours\`, the log warns, and the reach is that of these objects.
- Deleted objects are not noticed.

A full refresh reads the objects in the order of their keys, each as it is when its turn comes.

### When something changes or breaks

A read resumes after a lost worker at the same record of the same object: at a byte of JSON lines, at a row group of Parquet;
otherwise the object is read again and the records that were loaded are skipped. A connection that breaks is taken up where it
broke. Every request names the version of the object by its ETag: one that changes before it is read is read in its new version,
or left to a later run; one that changes while it is read fails the run.

### Permissions

The keys need \`s3:ListBucket\` on the bucket and \`s3:GetObject\` on its objects:

\`\`\`json
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": "s3:ListBucket",
      "Resource": "arn:aws:s3:::acme-exports",
      "Condition": { "StringLike": { "s3:prefix": "shop/*" } }
    },
    { "Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::acme-exports/shop/*" }
  ]
}
\`\`\`

${providers}`
