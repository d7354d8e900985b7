import { describeConfig, readConfig } from '../config/config.ts'

export async function printConfig(): Promise<number> {
  for (const { name, value, given } of describeConfig(readConfig()))
    console.log(`${name.padEnd(32)} ${value}${given ? '' : '  (default)'}`)
  return 0
}
