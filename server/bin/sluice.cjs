#!/usr/bin/env node
// Runs on whatever `node` is on the path, however old, and hands over to the Node 24 that npm installed beside it.
'use strict'
var childProcess = require('child_process')
var path = require('path')

var main = path.join(__dirname, '..', 'src', 'main.js')

function findNode() {
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath
  try {
    return require.resolve('node-' + process.platform + '-' + process.arch + '/bin/node')
  } catch (error) {
    console.error(
      'Sluice needs Node 24 or later, and this is ' +
        process.version +
        '. Run `npm ci` in its folder, or install Node 24.'
    )
    process.exit(1)
  }
}

// Killed by force, this process can hand nothing on, so the kernel ends its child with it. Where there is no setpriv the
// child notices that the channel between them has closed.
function endWithParent() {
  var command = ['setpriv', '--pdeathsig', 'KILL']
  if (process.platform !== 'linux') return []
  var tried = childProcess.spawnSync(command[0], command.slice(1).concat('true'), { stdio: 'ignore' })
  return tried.status === 0 ? command : []
}

// Only these live long enough to be left behind. For the others trying setpriv would take longer than what they do.
var longLived = ['start', 'api', 'worker', 'scheduler'].indexOf(process.argv[2]) !== -1
var node = findNode()
if (!longLived && node === process.execPath) require('./same-process.cjs')
else launch()

function launch() {
  var command = (longLived ? endWithParent() : []).concat(node, '--', main, process.argv.slice(2))
  var child = childProcess.spawn(command[0], command.slice(1), { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })
  var asked = false
  ;['SIGINT', 'SIGTERM', 'SIGHUP'].forEach(function (signal) {
    process.on(signal, function () {
      asked = true
      child.kill(signal)
    })
  })
  // `npx` runs this through a shell, which dies of a signal without handing it on. The parent is another one then. After
  // Ctrl+C, which reaches all of them, a second signal would end the service at once.
  var parent = process.ppid
  var watch
  if (process.env.npm_command === 'exec')
    watch = setInterval(function () {
      if (process.ppid === parent) return
      clearInterval(watch)
      if (!asked) child.kill('SIGTERM')
    }, 250)
  child.on('exit', function (code, signal) {
    clearInterval(watch)
    if (signal) {
      process.removeAllListeners(signal)
      process.kill(process.pid, signal)
    } else process.exit(code)
  })
}
