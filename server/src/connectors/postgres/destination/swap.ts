/**
 * Replaces the old table by a staged one within the publishing transaction: the stage gets the old table's owner,
 * grants, comments, options, indexes and keys, then its name.
 *
 * Not every table can be swapped. Whatever refers to the old table (a view, a foreign key, a trigger, a publication)
 * would be lost with it; such tables have their rows exchanged instead (publish.ts). And a session with a snapshot
 * older than the staged rows would find the new table empty, as after a TRUNCATE; while such a session exists, rows are
 * exchanged too.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { quoteName, quoteTable, quoteText, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readBoolean, readText, readTexts } from '../shared/values.ts'

/** Everything that would not survive a swap. */
export async function findSwapObstacles(session: Session, name: TableName): Promise<string[]> {
  const generic =
    session.version >= 150000
      ? 'OR EXISTS (SELECT FROM pg_publication_namespace p WHERE p.pnnspid = c.relnamespace)'
      : ''
  const rows = await session.query(
    `WITH target AS (
       SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
     )
     SELECT 'kind' AS obstacle FROM target WHERE relkind <> 'r' OR relispartition OR relpersistence <> 'p' OR reltablespace <> 0 OR reloftype <> 0
     UNION ALL SELECT 'owner' FROM target WHERE NOT pg_has_role(relowner, 'USAGE')
     UNION ALL SELECT 'row security' FROM target WHERE relrowsecurity OR relforcerowsecurity
     UNION ALL SELECT 'replica identity' FROM target WHERE relreplident <> 'd'
     UNION ALL SELECT 'inheritance' FROM target c WHERE EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhparent, inhrelid))
     UNION ALL SELECT 'publication' FROM target c WHERE EXISTS (SELECT FROM pg_publication WHERE puballtables)
       OR EXISTS (SELECT FROM pg_publication_rel p WHERE p.prrelid = c.oid) ${generic}
     UNION ALL SELECT 'column options' FROM target c WHERE EXISTS (
       SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         AND (a.attidentity <> '' OR a.attgenerated <> '' OR a.attoptions IS NOT NULL))
     UNION ALL SELECT 'foreign key' FROM target c WHERE EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND c.oid IN (k.conrelid, k.confrelid))
     UNION ALL SELECT 'trigger' FROM target c WHERE EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
     UNION ALL SELECT 'clustered or invalid index' FROM target c WHERE EXISTS (
       SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisclustered OR NOT i.indisvalid))
     UNION ALL SELECT 'dependent ' || d.classid::regclass FROM target c JOIN pg_depend d ON
         (d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid OR d.refclassid = 'pg_type'::regclass AND d.refobjid = c.reltype)
       WHERE NOT (d.classid = 'pg_type'::regclass AND d.deptype = 'i')
         AND NOT (d.classid = 'pg_attrdef'::regclass)
         AND NOT (d.classid = 'pg_constraint'::regclass AND EXISTS (
           SELECT FROM pg_constraint k WHERE k.oid = d.objid AND k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c', 'n', 'x')))
         AND NOT (d.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_class i WHERE i.oid = d.objid AND i.relkind IN ('i', 't')))`,
    [name.schema, name.table],
    { obstacle: readText },
  )
  return rows.map(({ obstacle }) => obstacle)
}

const SNAPSHOT_WAIT_MS = 3000

/** Waits a moment for sessions whose snapshot is not newer than `transaction`. False if some remain. */
export async function waitForOlderSnapshots(
  session: Session,
  signal: AbortSignal,
  transaction: string,
): Promise<boolean> {
  const deadline = Date.now() + SNAPSHOT_WAIT_MS
  for (;;) {
    const [row] = await session.query(
      `SELECT EXISTS (
         SELECT FROM pg_stat_activity WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND pid <> pg_backend_pid() AND coalesce(backend_type, 'client backend') = 'client backend'
           AND backend_xmin IS NOT NULL AND age(backend_xmin) >= age($1::xid)
       ) AS found`,
      [transaction],
      { found: readBoolean },
    )
    if (!row?.found) return true
    if (Date.now() > deadline) return false
    await delay(50, undefined, { signal })
  }
}

const indexRow = {
  name: readText,
  definition: readText,
  /** The part of the definition before the access method. */
  head: readText,
  is_unique: readBoolean,
  constraint_definition: orNull(readText),
}

/** Names of new indexes and the names they get once the old table is gone. */
export interface Renames {
  from: string
  to: string
}

/** Builds the old table's indexes and keys on the stage. Slow, so it is done before anything is locked. */
export async function copyIndexes(session: Session, from: TableName, stage: TableName): Promise<Renames[]> {
  const rows = await session.query(
    `SELECT i.relname::text AS name, pg_get_indexdef(i.oid) AS definition,
            format('CREATE %sINDEX %I ON %I.%I ', CASE WHEN x.indisunique THEN 'UNIQUE ' ELSE '' END, i.relname, $1::text, $2::text) AS head,
            x.indisunique AS is_unique, pg_get_constraintdef(k.oid) AS constraint_definition
     FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
     LEFT JOIN pg_constraint k ON k.conindid = x.indexrelid AND k.conrelid = x.indrelid AND k.contype IN ('p', 'u', 'x')
     WHERE x.indrelid = to_regclass($3) ORDER BY i.relname`,
    [from.schema, from.table, quoteTable(from)],
    indexRow,
  )
  const renames: Renames[] = []
  for (const [index, row] of rows.entries()) {
    const name = `${stage.table}_i${index}`
    if (row.constraint_definition !== null) {
      await session.script(
        `ALTER TABLE ${quoteTable(stage)} ADD CONSTRAINT ${quoteName(name)} ${row.constraint_definition}`,
      )
    } else {
      if (!row.definition.startsWith(row.head)) throw new Error(`the definition of index ${row.name} cannot be read`)
      await session.script(
        `CREATE ${row.is_unique ? 'UNIQUE ' : ''}INDEX ${quoteName(name)} ON ${quoteTable(stage)} ${row.definition.slice(row.head.length)}`,
      )
    }
    renames.push({ from: name, to: row.name })
  }
  return renames
}

/** Copies owner, grants, comment and options of the old table. Fast. */
export async function copyProperties(session: Session, from: TableName, stage: TableName): Promise<void> {
  const [row] = await session.query(
    `SELECT relowner::regrole::text AS owner, relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) AS own,
            obj_description(oid, 'pg_class') AS comment, to_json(reloptions) AS options
     FROM pg_class WHERE oid = to_regclass($1)`,
    [quoteTable(from)],
    { owner: readText, own: readBoolean, comment: orNull(readText), options: orNull(readTexts) },
  )
  if (!row) return
  const table = quoteTable(stage)
  if (row.comment !== null) await session.script(`COMMENT ON TABLE ${table} IS ${quoteText(row.comment)}`)
  if (row.options?.length) {
    const options = row.options.map((option) =>
      option.replace(/^([^=]+)=(.*)$/, (_, name, value) => `${name} = ${quoteText(value)}`),
    )
    await session.script(`ALTER TABLE ${table} SET (${options.join(', ')})`)
  }
  await copyGrants(session, from, stage)
  // Last, because from here on the new owner's privileges apply.
  if (!row.own) await session.script(`ALTER TABLE ${table} OWNER TO ${row.owner}`)
}

async function copyGrants(session: Session, from: TableName, stage: TableName): Promise<void> {
  const grants = `SELECT format('%s%s', g.privilege_type, CASE WHEN a.column_name IS NULL THEN '' ELSE format(' (%I)', a.column_name) END) AS privilege,
      CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END AS grantee, g.is_grantable AS grantable
    FROM (SELECT relacl AS acl, relowner AS owner, NULL::text AS column_name FROM pg_class WHERE oid = to_regclass($1)
          UNION ALL SELECT t.attacl, c.relowner, t.attname::text FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid
          WHERE t.attrelid = to_regclass($1) AND t.attnum > 0 AND NOT t.attisdropped) AS a,
         LATERAL aclexplode(a.acl) AS g WHERE g.grantee <> a.owner`
  // The role's default privileges may have granted more on the new table than the old one has.
  const defaults = await session.query(grants, [quoteTable(stage)], { privilege: readText, grantee: readText })
  for (const { privilege, grantee } of defaults)
    await session.script(`REVOKE ${privilege} ON ${quoteTable(stage)} FROM ${grantee}`)
  const wanted = await session.query(grants, [quoteTable(from)], {
    privilege: readText,
    grantee: readText,
    grantable: readBoolean,
  })
  for (const { privilege, grantee, grantable } of wanted) {
    await session.script(
      `GRANT ${privilege} ON ${quoteTable(stage)} TO ${grantee}${grantable ? ' WITH GRANT OPTION' : ''}`,
    )
  }
}

/**
 * Drops the old table and gives the stage its name. Needs the lock that readers wait for; nothing slow happens here.
 */
export async function swapTables(
  session: Session,
  target: TableName,
  stage: TableName,
  renames: readonly Renames[],
): Promise<void> {
  const statements = [
    `DROP TABLE ${quoteTable(target)}`,
    `ALTER TABLE ${quoteTable(stage)} RENAME TO ${quoteName(target.table)}`,
  ]
  for (const { from, to } of renames) {
    statements.push(`ALTER INDEX ${quoteTable({ schema: target.schema, table: from })} RENAME TO ${quoteName(to)}`)
  }
  await session.script(statements.join('; '))
}
