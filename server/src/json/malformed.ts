/** The bytes are not what they should be. Whoever gave them is at fault; the message says where they go wrong. */
export class MalformedJson extends Error {}
