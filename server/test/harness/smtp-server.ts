/**
 * A mail server on loopback that keeps what it is given. An address that begins with `nobody` is refused for good, one that
 * begins with `later` for now.
 */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { after } from 'node:test'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'

export interface ReceivedMail {
  from: string
  to: string[]
  /** As it came over the wire. */
  text: string
  /** Whether it came encrypted, and who signed in. */
  secure: boolean
  user: string | null
}

export interface SmtpServer {
  port: number
  /** The total number of mails. */
  count(): number
  next(): Promise<ReceivedMail>
}

interface Options {
  /** STARTTLS is offered, or TLS is spoken from the start. */
  tls?: { key: string; cert: string; atOnce?: boolean }
  auth?: boolean
  /** Takes connections and never says a word. */
  silent?: boolean
}

export async function startSmtpServer(options: Options = {}): Promise<SmtpServer> {
  const { tls, silent = false } = options
  const arrived: ReceivedMail[] = []
  const waiting: ((mail: ReceivedMail) => void)[] = []
  const sockets = new Set<Socket>()
  let count = 0
  const take = (mail: ReceivedMail) => {
    count++
    const taker = waiting.shift()
    if (taker) taker(mail)
    else arrived.push(mail)
  }
  const serve = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    if (!silent) new Conversation(socket, options, take).greet()
  }
  const server = (tls?.atOnce ? createTlsServer(tls, serve) : createServer(serve)).listen(0, '127.0.0.1')
  server.on('tlsClientError', () => {})
  await once(server, 'listening')
  after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    port: (server.address() as { port: number }).port,
    count: () => count,
    next: () => {
      const first = arrived.shift()
      return first ? Promise.resolve(first) : new Promise((resolve) => waiting.push(resolve))
    },
  }
}

class Conversation {
  #socket: Socket
  #options: Options
  #take: (mail: ReceivedMail) => void
  #buffer = ''
  #isData = false
  #user: string | null = null
  #mail: Pick<ReceivedMail, 'from' | 'to'> = { from: '', to: [] }

  constructor(socket: Socket, options: Options, take: (mail: ReceivedMail) => void) {
    this.#socket = socket
    this.#options = options
    this.#take = take
    this.#listen()
  }

  greet(): void {
    this.#say('220 mail.test ESMTP')
  }

  #listen(): void {
    this.#socket.on('data', (chunk) => {
      this.#buffer += chunk.toString('utf8')
      this.#read()
    })
  }

  #say(...lines: string[]): void {
    this.#socket.write(lines.map((line) => `${line}\r\n`).join(''))
  }

  #read(): void {
    for (;;) {
      const end = this.#isData ? '\r\n.\r\n' : '\r\n'
      const at = this.#buffer.indexOf(end)
      if (at < 0) return
      const line = this.#buffer.slice(0, at)
      this.#buffer = this.#buffer.slice(at + end.length)
      if (this.#isData) this.#receive(line)
      else this.#obey(line)
    }
  }

  #receive(text: string): void {
    this.#isData = false
    this.#say('250 taken')
    this.#take({ ...this.#mail, text, secure: this.#socket instanceof TLSSocket, user: this.#user })
  }

  #obey(line: string): void {
    const verb = line.slice(0, 4).toUpperCase()
    this.#say(...this.#replyTo(verb, line))
    if (verb === 'STAR') {
      this.#socket.removeAllListeners('data')
      this.#socket = new TLSSocket(this.#socket, { isServer: true, ...this.#options.tls }).on('error', () => {})
      this.#listen()
    }
    if (verb === 'DATA') this.#isData = true
    if (verb === 'QUIT') this.#socket.end()
  }

  #replyTo(verb: string, line: string): string[] {
    const { tls, auth } = this.#options
    const address = /<(.*?)>/.exec(line)?.[1] ?? ''
    switch (verb) {
      case 'EHLO': {
        const startTls = tls && !(this.#socket instanceof TLSSocket) ? ['250-STARTTLS'] : []
        return ['250-mail.test', ...startTls, ...(auth ? ['250-AUTH PLAIN'] : []), '250 SMTPUTF8']
      }
      case 'STAR':
        return ['220 go ahead']
      case 'AUTH': {
        const [, user = '', password] = Buffer.from(line.split(' ')[2] ?? '', 'base64')
          .toString('utf8')
          .split('\0')
        if (password !== 'right password') return ['535 5.7.8 the credentials of relay-user are wrong']
        this.#user = user
        return ['235 welcome']
      }
      case 'MAIL':
        this.#mail = { from: address, to: [] }
        return ['250 ok']
      case 'RCPT':
        if (address.startsWith('nobody')) return ['550 5.1.1 no such mailbox']
        if (address.startsWith('later')) return ['450 4.2.0 greylisted']
        this.#mail.to.push(address)
        return ['250 ok']
      case 'DATA':
        return ['354 go ahead']
      case 'QUIT':
        return ['221 bye']
      default:
        return ['250 ok']
    }
  }
}
