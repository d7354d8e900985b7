/** The source's part of its page. */
export const sourceNotes = 'A stream is a folder below the prefix.'
