/** The destination's part of its page. */
export const destinationNotes = 'Readers go by the manifest.'
