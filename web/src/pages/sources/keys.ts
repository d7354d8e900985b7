/** The key of shortcuts, as this machine's keyboard calls it. */
export const MOD = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl '
