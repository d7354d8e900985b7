/** The maximum length of a name that a person gives: of a pipeline, a domain, a key. */
export const LONGEST_NAME = 200
