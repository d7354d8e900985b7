/**
 * Fills a database with what an installation has after a year, to try out how it carries.
 *
 *   DATA_DIR=/tmp/large npm run seed -- --organizations 1000 --pipelines 100000 --runs 10000000 --audit 10000000
 *   npm run seed -- --runs 100000 --organization ID     an organization that exists becomes the largest one
 *
 * The database is that of the settings (DATA_DIR or DATABASE_URL); its user must be a superuser, because foreign keys are not
 * checked meanwhile. One that has organizations is refused without --organization or --anyway. All of it is one transaction.
 */
import '../bench/lib/help.ts'
import { parseArgs } from 'node:util'
import { seed } from '../bench/lib/seed.ts'
import { withDatabase } from '../server/src/cli/open-database.ts'
import { sql } from '../server/src/database/database.ts'
import { migrate } from '../server/src/database/migrate.ts'
import { createSecretBox } from '../server/src/database/secret-box.ts'

const { values } = parseArgs({
  options: {
    organizations: { type: 'string', default: '100' },
    pipelines: { type: 'string', default: '10000' },
    runs: { type: 'string', default: '1000000' },
    audit: { type: 'string', default: '1000000' },
    organization: { type: 'string' },
    anyway: { type: 'boolean', default: false },
  },
})

await withDatabase(async ({ db, connection, keys }) => {
  await migrate(db)
  const other = await db.first(sql`SELECT FROM organizations LIMIT 1`)
  if (other && !values.organization && !values.anyway) {
    console.error(
      'This database has organizations; name the one to fill with --organization ID, or add others with --anyway.',
    )
    process.exitCode = 1
    return
  }
  const began = performance.now()
  await seed(connection, createSecretBox(keys.encryption_keys), {
    organizations: Number(values.organizations),
    pipelines: Number(values.pipelines),
    runs: Number(values.runs),
    audit: Number(values.audit),
    ...(values.organization && { largest: values.organization }),
  })
  console.log(`done in ${Math.round((performance.now() - began) / 1000)} s`)
})
