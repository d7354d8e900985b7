/** Modules that an operator allows (CELL_MODULES): usable by authors, and no way out of the cell. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { describeMissingModules } from '../../src/cell/module-problems.ts'
import { previewSource } from '../../src/cell/preview.ts'
import { findPython } from '../../src/cell/python.ts'
import { validateCode } from '../../src/cell/validate.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { type Attack, Ground } from './attack-ground.ts'
import { ATTACKED, attackAll, findAttacks, judgeAll } from './attack-suite.ts'
import { openCells, writeSource } from './harness.ts'

const run = promisify(execFile)
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-modules-'))
after(() => rmSync(folder, { recursive: true, force: true }))

/** A typical package: submodules that are loaded lazily, a folder of tests, access to the system, something printed. */
const PACKAGE: Record<string, string> = {
  '__init__.py': `
import os, socket, subprocess
print("ready 3.99.0")
print("exit 1 0 0 0")
def __getattr__(name):
    if name == "lazy":
        from handy import late
        return late.value
    raise AttributeError(name)
__all__ = ["add", "lazy", "render", "missing"]
def add(a, b): return a + b
def render(value):
    from handy.parts import text
    return text.show(value)
`,
  'late.py': 'value = "loaded late"',
  'parts/__init__.py': '',
  'parts/text.py': 'def show(value): return f"<{value}>"',
  'io/__init__.py': 'size = 3',
  'tests/__init__.py': 'import os\nos._exit(9)  # nobody loads the tests of a package',
  'broken.py': 'raise SystemExit(3)',
}

/** What native code of a package could do. */
const NATIVE = `
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
static PyObject *add(PyObject *self, PyObject *args) {
  long a, b;
  if (!PyArg_ParseTuple(args, "ll", &a, &b)) return NULL;
  return PyLong_FromLong(a + b);
}
static PyObject *reach(PyObject *self, PyObject *args) {
  int file = open("/etc/passwd", O_RDONLY);
  int channel = socket(AF_INET, SOCK_STREAM, 0);
  void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return Py_BuildValue("(iii)", file >= 0, channel >= 0, code != MAP_FAILED);
}
static PyObject *launch(PyObject *self, PyObject *args) {
  char *argv[] = {"/bin/true", NULL};
  execve("/bin/true", argv, NULL);
  Py_RETURN_NONE;
}
static PyMethodDef methods[] = {
  {"add", add, METH_VARARGS, ""}, {"reach", reach, METH_NOARGS, ""}, {"launch", launch, METH_NOARGS, ""}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native_handy", NULL, -1, methods};
PyMODINIT_FUNC PyInit_native_handy(void) { return PyModule_Create(&module); }
`

async function askPython(python: string, code: string): Promise<string> {
  return (await run(python, ['-I', '-c', code])).stdout.trim()
}

/** A virtual environment with the package in it and, if there are a compiler and Python's headers, a native one. */
async function install(): Promise<{ python: string; modules: string[] }> {
  const base = await findPython(process.env.PYTHON)
  await run(base, ['-m', 'venv', '--without-pip', path.join(folder, 'venv')])
  const python = path.join(folder, 'venv/bin/python')
  const packages = await askPython(python, 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  for (const [name, code] of Object.entries(PACKAGE)) {
    const file = path.join(packages, 'handy', name)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, code)
  }
  const include = await askPython(python, 'import sysconfig; print(sysconfig.get_paths()["include"])')
  const source = path.join(folder, 'native_handy.c')
  writeFileSync(source, NATIVE)
  if (!existsSync(path.join(include, 'Python.h'))) return { python, modules: ['handy'] }
  const target = path.join(packages, 'native_handy.so')
  const built = await run('cc', ['-shared', '-fPIC', `-I${include}`, source, '-o', target]).then(
    () => true,
    () => false,
  )
  return { python, modules: built ? ['handy', 'native_handy'] : ['handy'] }
}

/** The data of the first record of a preview, which travels as JSON text. */
const firstOf = (records: Buffer): Record<string, unknown> => JSON.parse(records.toString())[0].data

const { python, modules } = await install()
const native = modules.includes('native_handy')
if (!native) console.log('no native module was tried: a C compiler and the headers of Python are needed (python3-dev)')
const zygote = openCells({ ...ATTACKED, python, modules })

test('a module that the operator allows can be imported, with what it loads late, and no other', async () => {
  const body = `
print(handy.add(1, 2), lazy, handy.render("x"), handy.parts.text.show("y"), handy.io.size)
yield {"n": ${native ? 'native_handy.add(1, 2)' : 3}}`
  const imports = `import handy\nimport handy.parts.text\nfrom handy import lazy, io\n${native ? 'import native_handy' : ''}`
  const code = writeSource(body, imports)
  const preview = await previewSource({ code, stream: 'a', zygote })
  assert.deepEqual([preview.error, preview.logs], [null, ['INFO 3 loaded late <x> <y> 3']])
  assert.equal(firstOf(preview.records).n, 3)

  const refused = await validateCode(code, undefined, { zygote: openCells({ python }) })
  assert.match(refused.errors[0]?.message ?? '', /^import of 'handy' is not allowed; .*allow more with CELL_MODULES$/)
  const through = writeSource('yield {"x": handy.os.getpid()}', 'import handy\nfrom handy import socket')
  const { errors } = await validateCode(through, undefined, { zygote })
  assert.deepEqual(
    errors.map(({ message }) => message.split(';')[0]),
    ["import of 'socket' (through 'handy') is not allowed", "use of 'os' through 'handy' is not allowed"],
  )
})

test('the setting CELL_MODULES reaches validation and previews of a service', async () => {
  const app = await startApp({ PYTHON: python, CELL_MODULES: 'handy' })
  const person = await registerPerson(app)
  const code = writeSource('yield {"n": handy.add(1, 2)}', 'import handy')
  const validated = await app.call('POST', '/api/custom-sources/validate', { as: person, body: { code } })
  assert.equal(validated.body.valid, true, validated.text)
  const preview = await app.call('POST', '/api/custom-sources/preview', { as: person, body: { code, stream: 'a' } })
  assert.deepEqual(preview.body.records?.[0]?.data, { n: 3 }, preview.text)
})

test('a module that is missing, broken or forbidden is reported in one sentence, and cells work without it', async () => {
  const wanted = ['handy', 'not_installed', 'handy.broken', 'os', '_socket', 'http.client', 'svc.laptop', 'json']
  const sentences = await describeMissingModules({ python, sandbox: 'kernel', limits: {}, modules: wanted })
  const never =
    'is never available to custom sources, because it gives access to the system or the interpreter; remove it'
  const without = 'custom sources work without it'
  assert.deepEqual(sentences, [
    `CELL_MODULES: not_installed cannot be imported (ModuleNotFoundError: No module named 'not_installed'); ${without}`,
    `CELL_MODULES: handy.broken cannot be imported (SystemExit: 3); ${without}`,
    ...['os', '_socket', 'http.client', 'svc.laptop'].map((name) => `CELL_MODULES: ${name} ${never}`),
    'CELL_MODULES: json is available to every custom source already; remove it',
  ])
  const cells = openCells({ python, modules: wanted })
  const code = writeSource('yield {"n": handy.add(1, 2)}', 'import handy')
  const preview = await previewSource({ code, stream: 'a', zygote: cells })
  assert.deepEqual([preview.error, firstOf(preview.records).n], [null, 3])
  const { errors } = await validateCode(writeSource('yield {}', 'import os'), undefined, { zygote: cells })
  assert.match(errors[0]?.message ?? '', /^import of 'os' is not allowed/)
})

const ask = (id: string, code: string): Attack => ({ id, code, category: 'modules', expect: '', assert: 'no_leak' })
const ATTEMPTS: Attack[] = [
  ask('module-os', "import handy\nLEAK = handy.os.listdir('/')\n"),
  ask('module-file', "import handy\nhandy.os.open('__CANARY__/new', handy.os.O_CREAT)\nLEAK = 1\n"),
  ask('module-socket', "import handy\nLEAK = handy.socket.create_connection(('127.0.0.1', __VICTIM__), 1)\n"),
  ask('module-process', "import handy\nLEAK = handy.subprocess.run(['/bin/true'])\n"),
  ask('module-late', 'import handy, sys\nsys.path[:] = ["/"]\nimport handy.tests\nLEAK = 1\n'),
]
if (native) {
  ATTEMPTS.push(
    ask('native-reach', 'import native_handy\nresult = native_handy.reach()\nif any(result): LEAK = result\n'),
    { ...ask('native-launch', 'import native_handy\nnative_handy.launch()\nLEAK = 1\n'), assert: 'dies' },
  )
}

test('the self-test and every attack have the same results with modules, and they are no way out', async () => {
  const { ok } = await zygote.selfTest()
  assert.equal(ok, true)
  const ground = await Ground.prepare(false)
  try {
    const attacks = [...(await findAttacks(ground, zygote)), ...ATTEMPTS]
    const results = await attackAll(ground, zygote, attacks)
    const found = judgeAll(attacks, results)
    console.log(`attacks with ${modules.join(', ')}: ${found.held.length} held, ${found.escaped.length} escaped`)
    assert.deepEqual([found.escaped, found.skipped], [[], ['module-late']])
    assert.equal(ground.victimReached, 0)
    if (native) assert.match(results.get('native-launch')?.failure?.message ?? '', /^sandbox violation/)
  } finally {
    await ground.close()
  }
})

test('the same attempts succeed with the layers off', async () => {
  const ground = await Ground.prepare(true)
  const open = openCells({ ...ATTACKED, python, modules, sandbox: 'none' })
  try {
    const results = await attackAll(ground, open, ATTEMPTS)
    const escaped = judgeAll(ATTEMPTS, results).escaped
    assert.ok(escaped.length >= 4, escaped.join())
  } finally {
    await ground.close()
  }
})

const USES: Record<string, { imports: string; body: string }> = {
  numpy: {
    imports: 'import numpy as np',
    body: 'yield {"n": float((np.ones((50, 50)) @ np.ones((50, 50))).sum() / np.linalg.norm(np.ones(4)) / 62500)}',
  },
  pydantic: {
    imports: 'from pydantic import BaseModel, Field\nclass Row(BaseModel):\n    n: int = Field(gt=0)',
    body: 'yield Row(n="1").model_dump()',
  },
}

test('numpy and pydantic work in a cell, if this Python has them', async () => {
  const base = await findPython(process.env.PYTHON)
  for (const [name, { imports, body }] of Object.entries(USES)) {
    const has = await askPython(base, `import importlib.util; print(importlib.util.find_spec('${name}') is not None)`)
    if (has !== 'True') {
      console.log(`${name} was not tried in a cell: pip install ${name}, for the Python of the setting PYTHON`)
      continue
    }
    const cells = openCells({ python: base, modules: [name] })
    const preview = await previewSource({ code: writeSource(body, imports), stream: 'a', zygote: cells })
    assert.deepEqual([preview.error, firstOf(preview.records).n], [null, 1], preview.logs.join('\n'))
  }
})
