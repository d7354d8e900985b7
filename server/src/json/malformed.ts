/** The bytes are not the JSON that they should be. Whoever gave them is at fault; the message says what is wrong. */
export class MalformedJson extends Error {}

/** JSON, but nested deeper than is accepted. */
export class TooDeep extends MalformedJson {}
