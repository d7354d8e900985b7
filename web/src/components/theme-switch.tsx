import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import { setTheme, useShade } from './theme.ts'

/** Switches between light and dark. The settings can also leave it to the system. */
export function ThemeSwitch() {
  const shade = useShade()
  const other = shade === 'dark' ? 'light' : 'dark'
  return (
    <Button
      look="quiet"
      onClick={() => setTheme(other)}
      aria-label={`Use the ${other} theme`}
      title={`Use the ${other} theme`}
    >
      <Icon name={shade === 'dark' ? 'sun' : 'moon'} />
    </Button>
  )
}
