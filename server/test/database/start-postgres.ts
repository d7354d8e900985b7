/**
 * Started by tests as another user: starts the embedded server in a folder, prints which user it runs as, and stops it.
 */
import { connectDatabase, sql } from '../../src/database/database.ts'
import { startEmbeddedPostgres } from '../../src/database/embedded-postgres.ts'

const server = await startEmbeddedPostgres(process.argv[2]!, 'a password')
const db = connectDatabase(server.connection, 1, (error) => console.error(error))
const row = await db.first<{ answer: number }>(sql`SELECT 41 + 1 AS answer`)
console.log(`uid ${process.getuid!()} answer ${row!.answer}`)
await db.close()
await server.stop()
