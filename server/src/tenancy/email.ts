/** Addresses are compared without case and stored in lower case. */
export const normalizeEmail = (email: string): string => email.trim().toLowerCase()
