import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { openPostgresBench, type PostgresBench } from '../harness/postgres-bench.ts'

const lines = (from: number, to: number, extra = '') =>
  Array.from({ length: to - from + 1 }, (_, at) => `{"id":${from + at},"name":"n${from + at}"${extra}}`)

describe('replace into postgres', () => {
  let p: PostgresBench
  before(async () => {
    p = await openPostgresBench()
  })
  after(() => p?.close())

  const idsOf = async (table: string) =>
    (await p.query<{ id: number }>(`SELECT id::int4 AS id FROM ${table} ORDER BY id`)).map(({ id }) => id)
  const oidOf = async (table: string) =>
    (await p.query<{ oid: number }>(`SELECT '${table}'::regclass::oid AS oid`))[0]!.oid
  const stages = async () =>
    (await p.query("SELECT relname FROM pg_class WHERE relname LIKE '\\_sluice\\_s\\_%' AND relkind = 'r'")).length

  it('replaces a plain table with its owner, grants, comments, options, indexes, keys, defaults and checks', async () => {
    await p.query(`CREATE ROLE owner_of_it; GRANT owner_of_it TO tester; CREATE ROLE looks; CREATE ROLE grants_on; CREATE ROLE column_only;
      CREATE TABLE plain (id int8 PRIMARY KEY, name text NOT NULL, kept text DEFAULT 'd', CONSTRAINT positive CHECK (id > 0), CONSTRAINT one_name UNIQUE (name));
      CREATE INDEX by_kept ON plain (lower(kept) DESC) WHERE kept IS NOT NULL;
      COMMENT ON TABLE plain IS 'it''s a table'; COMMENT ON COLUMN plain.name IS 'a name';
      ALTER TABLE plain SET (fillfactor = 70); GRANT SELECT ON plain TO looks; GRANT SELECT (name) ON plain TO column_only;
      GRANT INSERT ON plain TO grants_on WITH GRANT OPTION; ALTER TABLE plain OWNER TO owner_of_it;
      ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC; INSERT INTO plain VALUES (1, 'old', 'x')`)
    const describeIt = `SELECT relowner::regrole::text AS owner, relacl::text AS acl, reloptions::text AS options, obj_description(oid) AS comment, col_description(oid, 2) AS column_comment,
      (SELECT array_agg(pg_get_indexdef(indexrelid) ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = c.oid) AS indexes,
      (SELECT array_agg(conname || ' ' || pg_get_constraintdef(k.oid) ORDER BY conname) FROM pg_constraint k WHERE conrelid = c.oid) AS constraints,
      (SELECT array_agg(attname || coalesce(attacl::text, '') || attnotnull ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0) AS columns,
      (SELECT array_agg(pg_get_expr(adbin, adrelid)) FROM pg_attrdef WHERE adrelid = c.oid) AS defaults
      FROM pg_class c WHERE oid = 'plain'::regclass`
    const [before] = await p.query(describeIt)
    const oid = await oidOf('plain')
    await p.bench.run(p.load('plain', lines(1, 20, ',"kept":"y"')))
    assert.deepEqual(
      await idsOf('plain'),
      lines(1, 20).map((_, at) => at + 1),
    )
    assert.notEqual(await oidOf('plain'), oid)
    assert.deepEqual((await p.query(describeIt))[0], before)
    await p.query('ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM PUBLIC')
    assert.equal(await stages(), 0)
  })

  it('leaves the old rows if the new ones violate a key', async () => {
    await p.query("CREATE TABLE keyed (id int8 PRIMARY KEY, name text); INSERT INTO keyed VALUES (1, 'old')")
    await assert.rejects(p.bench.run(p.load('keyed', [...lines(1, 5), ...lines(1, 1)])), /duplicate|unique/i)
    assert.deepEqual(await p.query('SELECT name FROM keyed'), [{ name: 'old' }])
  })

  it('exchanges the rows if views depend on the table', async () => {
    await p.query(
      "CREATE TABLE viewed (id int8, name text); INSERT INTO viewed VALUES (100, 'old'); CREATE VIEW over_it AS SELECT id FROM viewed",
    )
    const oid = await oidOf('viewed')
    await p.bench.run(p.load('viewed', lines(1, 5, ',"more":1')))
    assert.equal(await oidOf('viewed'), oid)
    assert.deepEqual(await idsOf('over_it'), [1, 2, 3, 4, 5])
    assert.deepEqual(await p.query('SELECT more::int4 FROM viewed LIMIT 1'), [{ more: 1 }])
  })

  it('matches rows by key if other tables reference them, and fails rather than break a reference', async () => {
    await p.query(`CREATE TABLE parents (id int8 PRIMARY KEY, name text); INSERT INTO parents SELECT g, 'old' FROM generate_series(1, 10) g;
      CREATE TABLE children (id int8 REFERENCES parents ON DELETE CASCADE); INSERT INTO children VALUES (2), (9)`)
    const job = p.load('parents', lines(1, 8))
    await p.bench.run(job)
    assert.deepEqual(await idsOf('parents'), [1, 2, 3, 4, 5, 6, 7, 8])
    assert.deepEqual(await p.query("SELECT count(*)::int4 AS old FROM parents WHERE name = 'old'"), [{ old: 0 }])
    // 2 was matched and kept its child; 9 is gone, and its child was deleted by the cascade.
    assert.deepEqual(await idsOf('children'), [2])
    await p.query(
      'ALTER TABLE children DROP CONSTRAINT children_id_fkey; ALTER TABLE children ADD FOREIGN KEY (id) REFERENCES parents',
    )
    await assert.rejects(p.bench.run(p.follow(job, lines(3, 4))), /foreign key/)
    assert.deepEqual(await idsOf('parents'), [1, 2, 3, 4, 5, 6, 7, 8])
  })

  for (const [what, ddl] of [
    [
      'a trigger',
      "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER t AFTER INSERT ON special FOR EACH ROW EXECUTE FUNCTION nothing()",
    ],
    ['row security', 'ALTER TABLE special ENABLE ROW LEVEL SECURITY'],
    ['an identity column', 'ALTER TABLE special ADD COLUMN n int GENERATED BY DEFAULT AS IDENTITY'],
    ['a generated column', 'ALTER TABLE special ADD COLUMN twice int8 GENERATED ALWAYS AS (id * 2) STORED'],
    ['a child table', 'CREATE TABLE heir () INHERITS (special)'],
    ['a column of its row type elsewhere', 'CREATE TABLE uses_it (s special)'],
    [
      'a foreign key of its own',
      'CREATE TABLE elsewhere (id int8 PRIMARY KEY); INSERT INTO elsewhere SELECT generate_series(1, 9); ALTER TABLE special ADD FOREIGN KEY (id) REFERENCES elsewhere',
    ],
  ] as const) {
    it(`keeps a table with ${what} and exchanges its rows`, async () => {
      await p.query(`CREATE TABLE special (id int8, name text); INSERT INTO special VALUES (9, 'old'); ${ddl}`)
      const oid = await oidOf('special')
      await p.bench.run(p.load('special', lines(1, 3)))
      assert.equal(await oidOf('special'), oid)
      assert.deepEqual(await idsOf('special'), [1, 2, 3])
      await p.query(
        'DROP TABLE special CASCADE; DROP TABLE IF EXISTS elsewhere, uses_it; DROP FUNCTION IF EXISTS nothing',
      )
    })
  }

  it('exchanges the rows of a table that belongs to another role', async () => {
    await p.query(`CREATE ROLE loader LOGIN PASSWORD 'loader-pw'; GRANT CREATE, USAGE ON SCHEMA public TO loader;
      CREATE TABLE foreign_one (id int8, name text); INSERT INTO foreign_one VALUES (9, 'old');
      GRANT SELECT, INSERT, UPDATE, DELETE ON foreign_one TO loader`)
    const job = p.load('foreign_one', lines(1, 3))
    const config = { ...job.destination.config, user: 'loader', password: 'loader-pw', schema: 'public' }
    await p.query('GRANT ALL ON _sluice_marks TO loader')
    await p.bench.run({ ...job, destination: { name: 'postgres', config } })
    assert.deepEqual(await idsOf('foreign_one'), [1, 2, 3])
    assert.equal(
      (await p.query("SELECT relowner::regrole::text AS owner FROM pg_class WHERE relname = 'foreign_one'"))[0]!.owner,
      'tester',
    )
  })

  it('shows a reader the old rows or the new ones, even with an older snapshot that looks later', async () => {
    await p.query(
      'CREATE TABLE watched (id int8, name text); INSERT INTO watched SELECT g FROM generate_series(1, 1000) g',
    )
    const reader = await p.server.connect(p.database)
    const count = async () => Number((await reader.query('SELECT count(*) AS n FROM watched')).rows[0].n)
    let job = p.load('watched', lines(1, 777))
    // The snapshot is taken before the load, and the table is first read after it.
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
    const outcome = await p.bench.run(job, { checkpointRecords: 100 })
    assert.equal(outcome.records_written, 777)
    assert.equal(await count(), 1000)
    await reader.query('COMMIT')
    assert.equal(await count(), 777)

    // A snapshot from the middle of the load.
    job = p.follow(job, lines(1, 555), {}, { pageRecords: 50 })
    let commits = 0
    await p.bench.run(job, {
      checkpointRecords: 100,
      async fault(point) {
        if (point === 'commit:after' && ++commits === 2)
          await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
      },
    })
    assert.equal(await count(), 777)
    await reader.query('COMMIT')
    assert.equal(await count(), 555)
  })

  it('never shows a mixture to readers that poll continuously', async () => {
    await p.query('CREATE TABLE busy (id int8, name text); INSERT INTO busy SELECT g FROM generate_series(1, 100) g')
    const reader = await p.server.connect(p.database)
    const seen = new Set<number>()
    let over = false
    const looking = (async () => {
      while (!over) seen.add(Number((await reader.query('SELECT count(*) AS n FROM busy')).rows[0].n))
    })()
    let job = p.load('busy', lines(1, 200), {}, { pageRecords: 20 })
    for (const rows of [300, 400, 500]) {
      await p.bench.run(job, { checkpointRecords: 50 })
      job = p.follow(job, lines(1, rows), {}, { pageRecords: 20 })
    }
    over = true
    await looking
    assert.deepEqual(
      [...seen].filter((n) => ![100, 200, 300, 400].includes(n)),
      [],
    )
    assert.ok(seen.size > 1)
  })
})
