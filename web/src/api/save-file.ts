/** Has the browser save something that the page already has. */
export function saveFile(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  // The download has begun by then; a page that stays open must not keep every file.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
