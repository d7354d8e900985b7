/** Listing a bucket, page by page, in the order of the keys. Nothing is kept but the page. */
import { type S3Client, S3Error, sendForText } from './client.ts'
import { isDocument, readBlocks, readTag } from './xml.ts'

export interface S3Object {
  key: string
  size: number
  modified: Date
  /** Null if the store gives none. */
  etag: string | null
}

export interface ListRequest {
  prefix: string
  /** Only keys after this one. */
  after?: string
  /** Groups keys: what follows the prefix up to and including it is returned once, as a folder. */
  delimiter?: string
  /** Entries per page; the store's own limit is 1,000. */
  pageSize?: number
}

interface ListPage {
  objects: S3Object[]
  folders: string[]
}

/** A thousand keys of the greatest length, every byte of them percent-encoded, and what surrounds them. */
const PAGE_BYTES = 8 * 1024 * 1024
/** The longest key that S3 allows. */
const LONGEST_KEY = 1024

export async function* listPages(client: S3Client, request: ListRequest): AsyncGenerator<ListPage> {
  const { prefix, after, delimiter, pageSize } = request
  const base: Record<string, string> = {
    'list-type': '2',
    'encoding-type': 'url',
    prefix,
    ...(after === undefined ? {} : { 'start-after': after }),
    ...(delimiter === undefined ? {} : { delimiter }),
    ...(pageSize === undefined ? {} : { 'max-keys': String(pageSize) }),
  }
  let token: string | null = null
  do {
    const query: Record<string, string> = token === null ? base : { ...base, 'continuation-token': token }
    const xml: string = await sendForText(client, { method: 'GET', query }, PAGE_BYTES)
    yield readPage(xml, prefix)
    const next = nextToken(xml)
    if (next !== null && next === token) throw invalid('it names the same next page again and again')
    token = next
  } while (token !== null)
}

export async function* listObjects(client: S3Client, request: ListRequest): AsyncGenerator<S3Object> {
  for await (const { objects } of listPages(client, request)) yield* objects
}

function readPage(xml: string, prefix: string): ListPage {
  if (!isDocument(xml, 'ListBucketResult')) throw invalid('it is not a ListBucketResult')
  const decode = readTag(xml, 'EncodingType') === 'url' ? decodeUrl : (text: string) => text
  const own = (text: string | null): string => {
    if (text === null) throw invalid('an entry has no key')
    const key = decode(text)
    if (!key.startsWith(prefix)) throw invalid('it has a key that does not begin with the prefix')
    if (Buffer.byteLength(key) > LONGEST_KEY) throw invalid(`it has a key of more than ${LONGEST_KEY} bytes`)
    return key
  }
  return {
    objects: readBlocks(xml, 'Contents').map((entry) => readObject(entry, own(readTag(entry, 'Key')))),
    folders: readBlocks(xml, 'CommonPrefixes').map((entry) => own(readTag(entry, 'Prefix'))),
  }
}

function readObject(entry: string, key: string): S3Object {
  const size = Number(readTag(entry, 'Size'))
  const modified = new Date(readTag(entry, 'LastModified') ?? '')
  if (!Number.isSafeInteger(size) || size < 0) throw invalid('an entry has no valid size')
  if (Number.isNaN(modified.getTime())) throw invalid('an entry has no valid date')
  const etag = readTag(entry, 'ETag')
  return { key, size, modified, etag: etag && etag.length <= 200 && !/[^\x21-\x7e]/.test(etag) ? etag : null }
}

function nextToken(xml: string): string | null {
  if (readTag(xml, 'IsTruncated') !== 'true') return null
  const token = readTag(xml, 'NextContinuationToken')
  if (!token) throw invalid('it says that there is more, but not how to get it')
  return token
}

/** As forms are encoded: a space may be a plus sign. */
function decodeUrl(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw invalid('it has a key that cannot be decoded')
  }
}

function invalid(reason: string): S3Error {
  return new S3Error(200, 'InvalidListing', { reason: `a listing that cannot be used: ${reason}` })
}
