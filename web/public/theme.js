// Before the first paint, so that the page never flashes in the other theme. A file, because inline scripts are not allowed.
;(() => {
  let chosen = null
  try {
    chosen = localStorage.getItem('sluice.theme')
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  const dark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches)
  document.documentElement.dataset.theme = dark ? 'dark' : 'light'
})()
