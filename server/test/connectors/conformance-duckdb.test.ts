import { testRegistered } from '../harness/conformance-suite.ts'

await testRegistered((name) => name === 'duckdb')
