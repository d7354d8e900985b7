/** Whether a native library has parsed a file that nobody vouches for. Such a process is discarded after its run. */
let opened = false

/** Called before a library opens the file. */
export function noteOpenedFile(): void {
  opened = true
}

export const hasOpenedFile = (): boolean => opened
