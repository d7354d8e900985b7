/**
 * A bridge, and a network namespace with an address on it for every machine of the cluster. A machine can be cut off from another
 * without either being told: packets are dropped, nothing is refused.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'

const NET = '10.231.7'
/** Of this process, which drives the test. */
export const DRIVER = `${NET}.1`

export interface Machine {
  name: string
  address: string
  /** The command prefix that starts a program there. */
  enter: string[]
  /** Drops packets from and to another machine, or to all, until `heal`. */
  cutFrom(other?: Machine): void
  heal(): void
}

const run = (line: string): void => {
  const [command, ...args] = line.split(' ')
  execFileSync(command!, args, { stdio: ['ignore', 'ignore', 'inherit'] })
}

export interface Network {
  add(name: string): Machine
}

/** In a network and mount namespace that is ours alone. */
export function makeNetwork(): Network {
  mkdirSync('/run/netns', { recursive: true })
  run('mount -t tmpfs tmpfs /run/netns')
  run('ip link set lo up')
  run('ip link add bridge type bridge')
  run(`ip addr add ${DRIVER}/24 dev bridge`)
  run('ip link set bridge up')
  let machines = 1
  return {
    add(name) {
      const place = ++machines
      const address = `${NET}.${place}`
      const enter = ['ip', 'netns', 'exec', name]
      const within = (line: string) => run(`${enter.join(' ')} ${line}`)
      run(`ip netns add ${name}`)
      run(`ip link add veth${place} type veth peer name eth0 netns ${name}`)
      run(`ip link set veth${place} master bridge up`)
      within(`ip addr add ${address}/24 dev eth0`)
      within('ip link set eth0 up')
      within('ip link set lo up')
      return {
        name,
        address,
        enter,
        cutFrom(other) {
          within(`iptables -A INPUT -i eth0${other ? ` -s ${other.address}` : ''} -j DROP`)
          within(`iptables -A OUTPUT -o eth0${other ? ` -d ${other.address}` : ''} -j DROP`)
        },
        heal: () => within('iptables -F'),
      }
    },
  }
}
