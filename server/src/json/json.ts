/** A value as JSON has it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
