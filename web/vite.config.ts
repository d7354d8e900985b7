/**
 * The build of the console. Its output, `dist/`, is served by the API process (server/src/http/console.ts), compressed
 * once here instead of with every request.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

export default defineConfig({
  plugins: [
    react(),
    schemaModule('virtual:authentication-schemas', pickAuthentication),
    schemaModule('virtual:pipeline-schemas', pickPipeline),
    compress(),
  ],
  build: { target: 'es2023', modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
  server: { proxy: { '/api': 'http://127.0.0.1:8080' } },
})

interface Schema {
  description?: string
  'x-default'?: string
  properties?: Record<string, Schema> & { type?: { const?: string }; params?: unknown }
}

/** A few schemas out of docs/openapi.json, which is far too large to be loaded by the page. */
function schemaModule(id: string, pick: (schemas: Record<string, Schema>) => object): Plugin {
  return {
    name: id,
    resolveId: (wanted) => (wanted === id ? `\0${id}` : null),
    load(wanted) {
      if (wanted !== `\0${id}`) return null
      const { components } = JSON.parse(readFileSync(new URL('../docs/openapi.json', import.meta.url), 'utf8'))
      return `export default ${JSON.stringify(pick(components.schemas))}`
    },
  }
}

function pickAuthentication(schemas: Record<string, Schema>): object {
  const types = Object.entries(schemas)
    .filter(([name, { properties }]) => name.endsWith('Authentication') && properties?.type?.const)
    .map(([, { properties }]) => [properties!.type!.const, properties!.params])
  return Object.fromEntries(types)
}

/** Their defaults often depend on other fields, so they are words beside the field. */
function pickPipeline(schemas: Record<string, Schema>): object {
  const withDefaults = ({ properties = {}, ...rest }: Schema) => ({
    ...rest,
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, { 'x-default': preset, ...field }]) => [
        name,
        { ...field, description: `${field.description} ${preset ? `Default: ${preset}.` : ''}`.trim() },
      ]),
    ),
  })
  return { sync: withDefaults(schemas.PipelineSync!), run: withDefaults(schemas.PipelineRunOptions!) }
}

function compress(): Plugin {
  return {
    name: 'compress',
    apply: 'build',
    writeBundle({ dir }) {
      for (const entry of readdirSync(dir!, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(js|css|html|svg)$/.test(entry.name)) continue
        const path = join(entry.parentPath, entry.name)
        writeFileSync(`${path}.br`, brotliCompressSync(readFileSync(path)))
      }
    },
  }
}
