/** The bytes are not valid JSON. The message says what is wrong. */
export class MalformedJson extends Error {}

/** JSON, but nested deeper than is accepted. */
export class TooDeep extends MalformedJson {}
