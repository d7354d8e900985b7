import assert from 'node:assert/strict'
import { test } from 'node:test'
import { join, raw, type Statement, sql } from '../../src/database/sql.ts'

const plain = ({ text, values }: Statement) => ({ text, values })

test('a value becomes a parameter, a statement is spliced in, and parameters are numbered consecutively', () => {
  const inner = sql`b = ${2} AND c = ${'x'}`
  assert.deepEqual(plain(sql`SELECT ${1} WHERE ${inner} LIMIT ${3}`), {
    text: 'SELECT $1 WHERE b = $2 AND c = $3 LIMIT $4',
    values: [1, 2, 'x', 3],
  })
  const items = [1, 2, 3].map((value) => sql`(${value})`)
  assert.deepEqual(plain(sql`VALUES ${join(items, ', ')}`), { text: 'VALUES ($1), ($2), ($3)', values: [1, 2, 3] })
  assert.deepEqual(plain(sql`SELECT ${raw('now()')}`), { text: 'SELECT now()', values: [] })
})

test('arrays, null and objects are values like others', () => {
  assert.deepEqual(plain(sql`SELECT ${[1, 2]}, ${null}, ${undefined}`), {
    text: 'SELECT $1, $2, $3',
    values: [[1, 2], null, undefined],
  })
  const fake = { text: 'DROP TABLE users', values: [], name: '' }
  assert.equal(sql`SELECT ${fake}`.text, 'SELECT $1', 'what looks like a statement is none')
})

test('one template with different parts gives different texts, and the same parts the same name', () => {
  const find = (condition: Statement, limit: number) => sql`SELECT 1 WHERE ${condition} LIMIT ${limit}`
  const byId = (id: number) => sql`id = ${id}`
  const byName = (name: string) => sql`name = ${name}`
  const [first, second, third] = [find(byId(1), 10), find(byName('a'), 10), find(byId(2), 20)]
  assert.equal(first.text, 'SELECT 1 WHERE id = $1 LIMIT $2')
  assert.equal(second.text, 'SELECT 1 WHERE name = $1 LIMIT $2')
  assert.deepEqual(third.values, [2, 20])
  assert.equal(third.name, first.name)
  assert.notEqual(second.name, first.name)
})

test('a value and a statement in the same place are distinguished', () => {
  const pick = (what: unknown) => sql`SELECT ${what}, ${raw('x')}`
  assert.equal(pick(1).text, 'SELECT $1, x')
  assert.equal(pick(raw('y')).text, 'SELECT y, x')
  assert.equal(pick(2).text, 'SELECT $1, x')
})

test('a template with many different parts stays correct', () => {
  const wrap = (inner: Statement) => sql`SELECT * FROM (${inner}) AS t WHERE a = ${1}`
  for (let round = 0; round < 2; round++)
    for (let index = 0; index < 100; index++)
      assert.equal(wrap(raw(`SELECT ${index}`)).text, `SELECT * FROM (SELECT ${index}) AS t WHERE a = $1`)
})
