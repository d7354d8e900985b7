// Apart from sluice.cjs, because an old Node cannot even parse `import()`.
'use strict'
import('../src/main.js')
